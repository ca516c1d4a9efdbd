import { constants } from 'node:fs';
import { type FileHandle, open, realpath, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from '../../observability/log.ts';
import { AUTH_LOCK_POLL_MS, AUTH_LOCK_TIMEOUT_MS, MAX_AUTH_FILE_BYTES } from '../limits.ts';
import type { FileLock } from '../service/store/registration-file.ts';
import { parseObject } from './auth-services.ts';
import { readSmallFile } from './small-file.ts';

/** The members of auth.json. Unknown ones are kept. */
export type AuthJson = Readonly<Record<string, unknown>>;

/**
 * The file auth.json of codex. Processes that change it take turns: they lock auth.lock beside it (`flock`), as codex does. The lock
 * ends with the process. auth.lock stays, because a process could not remove it without breaking another's lock.
 */
export class AuthFile {
  readonly path: string;
  readonly #lockPath: string;
  readonly #lock: FileLock | null;
  readonly #log: Logger;
  readonly #lockTimeoutMs: number;
  #warned = false;

  constructor(
    home: string,
    lock: FileLock | null,
    log: Logger,
    { lockTimeoutMs = AUTH_LOCK_TIMEOUT_MS }: { readonly lockTimeoutMs?: number } = {},
  ) {
    this.path = join(home, 'auth.json');
    this.#lockPath = join(home, 'auth.lock');
    this.#lock = lock;
    this.#log = log;
    this.#lockTimeoutMs = lockTimeoutMs;
  }

  /** Null when the file does not exist. Rejects when it cannot be read, or is not a JSON object. */
  async read(): Promise<AuthJson | null> {
    const text = await readSmallFile(this.path, MAX_AUTH_FILE_BYTES);
    if (text === null) return null;
    const value = parseObject(text);
    if (value === null) throw new Error(`${this.path} is not a JSON object`);
    return value;
  }

  /** Runs the work while no other process changes the file. Rejects when another process keeps the lock. */
  async locked<T>(work: () => Promise<T>): Promise<T> {
    const held = await this.#acquire();
    try {
      return await work();
    } finally {
      await held?.close();
    }
  }

  /** Replaces the file, and keeps its mode and owner. Where no file can be created beside it, overwrites it. */
  async write(value: AuthJson): Promise<void> {
    const text = `${JSON.stringify(value, null, 2)}\n`;
    // A symbolic link stays a link.
    const path = await realpath(this.path);
    try {
      await replaceFile(path, text);
    } catch (error) {
      if (DISK_FAILURES.has((error as NodeJS.ErrnoException).code ?? '')) throw error;
      await overwriteFile(path, text);
    }
  }

  /** Null when locks are not available. */
  async #acquire(): Promise<FileHandle | null> {
    if (this.#lock === null) return this.#unlocked('file locks are not available on this system');
    let handle: FileHandle;
    try {
      handle = await open(this.#lockPath, constants.O_RDWR | constants.O_CREAT, OWNER_ONLY);
    } catch (error) {
      return this.#unlocked((error as Error).message);
    }
    try {
      for (const deadline = performance.now() + this.#lockTimeoutMs; ; ) {
        if (tryLock(this.#lock, handle)) return handle;
        if (performance.now() > deadline) throw new Error(`another process keeps ${this.#lockPath} locked`);
        await sleep(AUTH_LOCK_POLL_MS);
      }
    } catch (error) {
      await handle.close();
      if (!(error instanceof LockError)) throw error;
      return this.#unlocked(error.message);
    }
  }

  #unlocked(reason: string): null {
    const problem = 'cannot lock the login; make sure that no other process uses it';
    if (!this.#warned) this.#log.warn(problem, { file: this.path, reason });
    this.#warned = true;
    return null;
  }
}

/** After these the file must not be touched: overwriting could fail halfway. */
const DISK_FAILURES: ReadonlySet<string> = new Set(['ENOSPC', 'EDQUOT', 'EFBIG', 'EIO']);

const OWNER_ONLY = 0o600;
const MODE_BITS = 0o7777;

/** The file system does not support locks. */
class LockError extends Error {}

function tryLock(lock: FileLock, { fd }: FileHandle): boolean {
  try {
    return lock(fd);
  } catch (error) {
    throw new LockError((error as Error).message);
  }
}

/** Readers see the old or the new file, and a crash leaves one of them. */
async function replaceFile(path: string, text: string): Promise<void> {
  const before = await open(path, 'r');
  const { mode, uid, gid } = await before.stat().finally(() => before.close());
  const temporary = `${path}.${process.pid}.tmp`;
  // Removes the leftover of a process with the same id. It must not be written to: it may be a symbolic link.
  await rm(temporary, { force: true });
  const handle = await open(temporary, 'wx', OWNER_ONLY);
  try {
    const own = await handle.stat();
    if (own.uid !== uid || own.gid !== gid) await handle.chown(uid, gid);
    await handle.chmod(mode & MODE_BITS);
    await handle.writeFile(text);
    await handle.datasync();
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  } finally {
    await handle.close();
  }
}

/** Writes before it truncates, so that the file is never empty. */
async function overwriteFile(path: string, text: string): Promise<void> {
  const handle = await open(path, 'r+');
  try {
    const { bytesWritten } = await handle.write(text, 0);
    await handle.truncate(bytesWritten);
    await handle.datasync();
  } finally {
    await handle.close();
  }
}
