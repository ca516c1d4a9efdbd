import { type FileHandle, open, readFile, rename, rm, stat } from 'node:fs/promises';
import type { Logger } from '../../../observability/log.ts';
import { StartError } from '../../../server/start-error.ts';
import { NoisePublicKey } from '../../noise/public-key.ts';
import { MAX_REGISTRATION_FILE_BYTES, REGISTRATION_FILE_APPENDED_LINES } from '../limits.ts';
import type { StoredEnvironment } from './memory-store.ts';
import { hashKey } from './store.ts';

/**
 * An append-only file of registrations, one line of JSON each; the last line of an environment counts. It is written anew when
 * many lines have been added. What cannot be written is logged and tried again with the next registration: an executor whose
 * registration is lost in a restart simply registers again.
 */
export class RegistrationFile {
  readonly #path: string;
  readonly #log: Logger;
  #handle: FileHandle;
  #appendedLines = 0;
  #work: Promise<void> = Promise.resolve();
  /** What has to be written; of each environment only the latest, however long the disk takes. */
  #waiting = new Map<string, StoredEnvironment>();
  /** The lines of a file that has to be written anew. */
  #all: ReadonlyMap<string, StoredEnvironment> = new Map();
  #writing = false;
  #failed = false;

  private constructor(path: string, handle: FileHandle, log: Logger) {
    this.#path = path;
    this.#handle = handle;
    this.#log = log;
  }

  /** Opens the file, which nobody else may use meanwhile, and returns what it knows. Throws StartError when that is not possible. */
  static async open(
    path: string,
    log: Logger,
  ): Promise<{ readonly file: RegistrationFile; readonly known: readonly StoredEnvironment[] }> {
    try {
      const lines = await readLines(path);
      const known = new Map<string, StoredEnvironment>();
      for (const environment of lines.map(parseLine)) {
        if (environment === null) continue;
        known.delete(environment.registration.environmentId);
        known.set(environment.registration.environmentId, environment);
      }
      await writeAll(path, known.values());
      return { file: new RegistrationFile(path, await open(path, 'a'), log), known: [...known.values()] };
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
    await writeAll(this.#path, [...this.#all.values()]);
    this.#appendedLines = 0;
    await this.#handle.close();
    this.#handle = await open(this.#path, 'a');
  }
}

const OWNER_ONLY = 0o600;

/** How every line begins, unless its process was killed before it had written as much. */
const LINE_START = '{"environmentId":';

async function readLines(path: string): Promise<string[]> {
  try {
    const found = await stat(path);
    if (!found.isFile()) throw new Error('it is not a file');
    if (found.size > MAX_REGISTRATION_FILE_BYTES) throw new Error('it is too large');
    const text = await readFile(path, 'utf8');
    // It is about to be written anew: what is somebody else's must not be lost.
    if (!LINE_START.startsWith(text.slice(0, LINE_START.length))) {
      throw new Error('it has something else than registrations in it');
    }
    return text.split('\n');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}

/** Replaces the file: readers see the old one or the new one. */
async function writeAll(path: string, environments: Iterable<StoredEnvironment>): Promise<void> {
  const temporary = `${path}.${process.pid}.tmp`;
  try {
    const handle = await open(temporary, 'w', OWNER_ONLY);
    try {
      for (const environment of environments) await handle.appendFile(lineOf(environment));
      await handle.datasync();
    } finally {
      await handle.close();
    }
    await rename(temporary, path);
  } catch (error) {
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
