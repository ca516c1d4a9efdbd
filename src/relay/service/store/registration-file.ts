import { constants, existsSync } from 'node:fs';
import { type FileHandle, open, rename, rm, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { StartError } from '../../../listener/start-error.ts';
import type { Logger } from '../../../observability/log.ts';
import { NoisePublicKey } from '../../noise/public-key.ts';
import { MAX_REGISTRATION_FILE_BYTES, REGISTRATION_FILE_APPENDED_LINES } from '../limits.ts';
import type { StoredEnvironment } from './memory-store.ts';
import { hashKey } from './store.ts';

/**
 * Locks an open file exclusively on this machine, until its descriptor is closed or this process ends. Returns false when another
 * holder has the lock. Throws when the file system does not support locks.
 */
export type FileLock = (fd: number) => boolean;

/**
 * An append-only file of registrations, one line of JSON each. The last line of an environment is valid. After many appended lines the
 * file is rewritten. A failed write is logged and retried with the next registration. An executor whose registration is lost in a
 * restart registers again.
 *
 * One process owns the file: the file at the path is always locked, even while a rewrite replaces it. The lock ends with the process.
 */
export class RegistrationFile {
  readonly #path: string;
  readonly #log: Logger;
  readonly #lock: FileLock;
  #handle: FileHandle;
  #appendedLines = 0;
  #work: Promise<void> = Promise.resolve();
  /** Pending writes: only the latest per environment, which bounds memory when the disk is slow. */
  #pending = new Map<string, StoredEnvironment>();
  /** All environments, for a rewrite of the file. */
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
   * Opens the file and returns its registrations. Throws StartError when it cannot be opened or another relay uses it. Without a lock
   * it cannot detect another relay, and logs that.
   */
  static async open(
    path: string,
    log: Logger,
    fileLock: FileLock | null,
  ): Promise<{ readonly file: RegistrationFile; readonly known: readonly StoredEnvironment[] }> {
    try {
      const lock = lockOrWarn(fileLock, path, log);
      const found = await openLocked(path, lock);
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
      throw new StartError(`cannot keep registrations in ${path}: ${explain(error as Error, path)}`);
    }
  }

  /** Adds a registration and writes it in the background. `all` are all registrations, including this one. */
  append(environment: StoredEnvironment, all: ReadonlyMap<string, StoredEnvironment>): void {
    this.#all = all;
    this.#pending.set(environment.registration.environmentId, environment);
    if (this.#writing) return;
    this.#writing = true;
    this.#work = this.#write();
  }

  /** Writes pending registrations and closes the file. */
  async close(): Promise<void> {
    await this.#work;
    await this.#handle.close().catch(() => {});
  }

  async #write(): Promise<void> {
    while (this.#pending.size > 0) {
      const batch = [...this.#pending.values()];
      this.#pending.clear();
      try {
        // After a failed write the file may end in an incomplete line, so it is rewritten.
        if (this.#failed || this.#appendedLines >= REGISTRATION_FILE_APPENDED_LINES) await this.#rewrite();
        else await this.#append(batch);
        this.#failed = false;
      } catch (error) {
        this.#failed = true;
        this.#log.error('cannot write the registration file', { reason: (error as Error).message });
      }
    }
    this.#writing = false;
  }

  async #append(batch: readonly StoredEnvironment[]): Promise<void> {
    this.#appendedLines += batch.length;
    await this.#handle.appendFile(batch.map(lineOf).join(''));
  }

  async #rewrite(): Promise<void> {
    const before = this.#handle;
    this.#handle = await replace(this.#path, [...this.#all.values()], this.#lock);
    this.#appendedLines = 0;
    await before.close();
  }
}

/** Describes why the file cannot be used and how to fix it. */
function explain(error: Error, path: string): string {
  const folder = dirname(path);
  if ((error as NodeJS.ErrnoException).code === 'ENOENT' && !existsSync(folder)) {
    return `the folder ${folder} does not exist. Create it with: mkdir -p '${folder}'`;
  }
  return `${error.message}. To use another file, change --store`;
}

const OWNER_ONLY = 0o600;

/** Retries when another process replaced the file after it was opened. A relay rewrites its file once in thousands of lines. */
const OPEN_ATTEMPTS = 10;

const IN_USE = 'another relay uses it. Stop that relay, or let both share a redis://HOST:PORT store';

/** Start of every line, unless the process was killed while writing it. */
const LINE_START = '{"environmentId":';

/** Continues without a lock when locks are not available, and logs one warning. */
function lockOrWarn(lock: FileLock | null, path: string, log: Logger): FileLock {
  let warned = false;
  const unlocked = (reason: string): true => {
    const problem = 'cannot lock the registration file; make sure that no other relay uses it';
    if (!warned) log.warn(problem, { file: path, reason });
    warned = true;
    return true;
  };
  return (fd) => {
    try {
      return lock === null ? unlocked('file locks are not available on this system') : lock(fd);
    } catch (error) {
      return unlocked((error as Error).message);
    }
  };
}

/** Opens the file, creating it if missing, and locks it. Throws when another process has the lock. */
async function openLocked(path: string, lock: FileLock): Promise<FileHandle> {
  for (let attempt = 0; attempt < OPEN_ATTEMPTS; attempt++) {
    const handle = await open(path, constants.O_RDWR | constants.O_CREAT, OWNER_ONLY);
    try {
      if (!lock(handle.fd)) throw new Error(IN_USE);
      if (await isCurrent(path, handle)) return handle;
    } catch (error) {
      await handle.close();
      throw error;
    }
    // Its owner has replaced the file, or it was removed.
    await handle.close();
  }
  throw new Error('another process keeps replacing it');
}

async function isCurrent(path: string, handle: FileHandle): Promise<boolean> {
  const [opened, found] = await Promise.all([handle.stat(), stat(path).catch(() => null)]);
  return found?.ino === opened.ino && found.dev === opened.dev;
}

async function readLines(handle: FileHandle): Promise<string[]> {
  const found = await handle.stat();
  if (!found.isFile()) throw new Error('it is not a regular file');
  if (found.size > MAX_REGISTRATION_FILE_BYTES) throw new Error('it is larger than 256 MiB');
  const text = await handle.readFile('utf8');
  // The file is about to be rewritten. This check keeps the contents of any other file.
  if (!LINE_START.startsWith(text.slice(0, LINE_START.length))) {
    throw new Error('it contains something other than registrations');
  }
  return text.split('\n');
}

/** Replaces the file atomically by a new, locked one, and returns it for appending. */
async function replace(
  path: string,
  environments: Iterable<StoredEnvironment>,
  lock: FileLock,
): Promise<FileHandle> {
  const temporary = `${path}.${process.pid}.tmp`;
  // Removes the leftover of a process with the same id. It must not be written to: it may be locked, or a symlink.
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

/** Returns null for an invalid line: a killed process may leave an incomplete last line. */
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
