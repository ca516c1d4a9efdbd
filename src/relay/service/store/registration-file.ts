import { constants } from 'node:fs';
import { type FileHandle, open, rename, rm, stat } from 'node:fs/promises';
import { StartError } from '../../../listener/start-error.ts';
import type { Logger } from '../../../observability/log.ts';
import { NoisePublicKey } from '../../noise/public-key.ts';
import { MAX_REGISTRATION_FILE_BYTES, REGISTRATION_FILE_APPENDED_LINES } from '../limits.ts';
import type { StoredEnvironment } from './memory-store.ts';
import { hashKey } from './store.ts';

/**
 * Locks an open file against every other holder on this machine, until its descriptor is closed or this process dies. False when
 * another holder is in the way. Throws where the file system has no locks.
 */
export type FileLock = (fd: number) => boolean;

/**
 * An append-only file of registrations, one line of JSON each; the last line of an environment counts. It is written anew when
 * many lines have been added. What cannot be written is logged and tried again with the next registration: an executor whose
 * registration is lost in a restart simply registers again.
 *
 * It belongs to one process: the file that the path leads to is always locked, also while another takes its place. The lock dies with
 * the process.
 */
export class RegistrationFile {
  readonly #path: string;
  readonly #log: Logger;
  readonly #lock: FileLock;
  #handle: FileHandle;
  #appendedLines = 0;
  #work: Promise<void> = Promise.resolve();
  /** What has to be written; of each environment only the latest, however long the disk takes. */
  #waiting = new Map<string, StoredEnvironment>();
  /** The lines of a file that has to be written anew. */
  #all: ReadonlyMap<string, StoredEnvironment> = new Map();
  #writing = false;
  #failed = false;

  private constructor(path: string, handle: FileHandle, lock: FileLock, log: Logger) {
    this.#path = path;
    this.#handle = handle;
    this.#lock = lock;
    this.#log = log;
  }

  /**
   * Opens the file and returns what it knows. Throws StartError when that is not possible, or another relay has it. Without a
   * lock the latter cannot be told, which is logged.
   */
  static async open(
    path: string,
    log: Logger,
    fileLock: FileLock | null,
  ): Promise<{ readonly file: RegistrationFile; readonly known: readonly StoredEnvironment[] }> {
    try {
      const lock = forgiving(fileLock, path, log);
      const found = await take(path, lock);
      try {
        const known = new Map<string, StoredEnvironment>();
        for (const environment of (await readLines(found)).map(parseLine)) {
          if (environment === null) continue;
          known.delete(environment.registration.environmentId);
          known.set(environment.registration.environmentId, environment);
        }
        const handle = await replace(path, known.values(), lock);
        return { file: new RegistrationFile(path, handle, lock, log), known: [...known.values()] };
      } finally {
        await found.close();
      }
    } catch (error) {
      throw new StartError(
        `cannot keep registrations in ${path}: ${(error as Error).message} (--store names another place)`,
      );
    }
  }

  /** Adds a registration; `all` are those that are known with it. Returns at once. */
  append(environment: StoredEnvironment, all: ReadonlyMap<string, StoredEnvironment>): void {
    this.#all = all;
    this.#waiting.set(environment.registration.environmentId, environment);
    if (this.#writing) return;
    this.#writing = true;
    this.#work = this.#write();
  }

  /** Ends with what was added. */
  async close(): Promise<void> {
    await this.#work;
    await this.#handle.close().catch(() => {});
  }

  async #write(): Promise<void> {
    while (this.#waiting.size > 0) {
      const batch = [...this.#waiting.values()];
      this.#waiting.clear();
      try {
        // A file that could not be written may end in half a line.
        if (this.#failed || this.#appendedLines >= REGISTRATION_FILE_APPENDED_LINES) await this.#writeAnew();
        else await this.#append(batch);
        this.#failed = false;
      } catch (error) {
        this.#failed = true;
        this.#log.error('registrations cannot be kept', { reason: (error as Error).message });
      }
    }
    this.#writing = false;
  }

  async #append(batch: readonly StoredEnvironment[]): Promise<void> {
    this.#appendedLines += batch.length;
    await this.#handle.appendFile(batch.map(lineOf).join(''));
  }

  async #writeAnew(): Promise<void> {
    const before = this.#handle;
    this.#handle = await replace(this.#path, [...this.#all.values()], this.#lock);
    this.#appendedLines = 0;
    await before.close();
  }
}

const OWNER_ONLY = 0o600;

/** A file whose place another has taken since it was opened is opened anew so often; one relay writes its file anew once in thousands of lines. */
const OPEN_ATTEMPTS = 10;

const IN_USE = 'another relay uses it: stop that one, or let both share a redis://HOST:PORT';

/** How every line begins, unless its process was killed before it had written as much. */
const LINE_START = '{"environmentId":';

/** Goes on without a lock where there is none to be had, and says so once. */
function forgiving(lock: FileLock | null, path: string, log: Logger): FileLock {
  let told = false;
  const unlocked = (reason: string): true => {
    const problem =
      'nothing keeps a second relay from using the same registrations; make sure that there is none';
    if (!told) log.warn(problem, { file: path, reason });
    told = true;
    return true;
  };
  return (fd) => {
    try {
      return lock === null ? unlocked('there is no lock to be had') : lock(fd);
    } catch (error) {
      return unlocked((error as Error).message);
    }
  };
}

/** Opens the file, empty if there is none, and locks it. Throws when somebody else has it. */
async function take(path: string, lock: FileLock): Promise<FileHandle> {
  for (let attempt = 0; attempt < OPEN_ATTEMPTS; attempt++) {
    const handle = await open(path, constants.O_RDWR | constants.O_CREAT, OWNER_ONLY);
    try {
      if (!lock(handle.fd)) throw new Error(IN_USE);
      if (await leadsTo(path, handle)) return handle;
    } catch (error) {
      await handle.close();
      throw error;
    }
    // Its holder has put another in its place, or it was removed.
    await handle.close();
  }
  throw new Error('it is exchanged again and again');
}

async function leadsTo(path: string, handle: FileHandle): Promise<boolean> {
  const [opened, found] = await Promise.all([handle.stat(), stat(path).catch(() => null)]);
  return found?.ino === opened.ino && found.dev === opened.dev;
}

async function readLines(handle: FileHandle): Promise<string[]> {
  const found = await handle.stat();
  if (!found.isFile()) throw new Error('it is not a file');
  if (found.size > MAX_REGISTRATION_FILE_BYTES) throw new Error('it is too large');
  const text = await handle.readFile('utf8');
  // It is about to be written anew: what is somebody else's must not be lost.
  if (!LINE_START.startsWith(text.slice(0, LINE_START.length))) {
    throw new Error('it has something else than registrations in it');
  }
  return text.split('\n');
}

/** Replaces the file by one that is locked, and returns that to be added to: readers see the old one or the new one. */
async function replace(
  path: string,
  environments: Iterable<StoredEnvironment>,
  lock: FileLock,
): Promise<FileHandle> {
  const temporary = `${path}.${process.pid}.tmp`;
  // Whatever a process with the same id has left is not written to: it might be locked, or a link.
  await rm(temporary, { force: true });
  const handle = await open(temporary, 'ax', OWNER_ONLY);
  try {
    lock(handle.fd);
    for (const environment of environments) await handle.appendFile(lineOf(environment));
    await handle.datasync();
    await rename(temporary, path);
    return handle;
  } catch (error) {
    await handle.close();
    await rm(temporary, { force: true });
    throw error;
  }
}

function lineOf({ registration, superseded }: StoredEnvironment): string {
  const { environmentId, registrationId, executorKey } = registration;
  return `${JSON.stringify({ environmentId, registrationId, executorKey, superseded })}\n`;
}

/** Null for what is no registration: the last line of a process that was killed may be half a line. */
function parseLine(line: string): StoredEnvironment | null {
  try {
    const { environmentId, registrationId, executorKey, superseded } = JSON.parse(line);
    const keyHash = hashKey(NoisePublicKey.parse(executorKey));
    if (typeof environmentId !== 'string' || typeof registrationId !== 'string') return null;
    if (!Array.isArray(superseded)) return null;
    return { registration: { environmentId, registrationId, executorKey, keyHash }, superseded };
  } catch {
    return null;
  }
}
