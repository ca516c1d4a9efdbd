import { constants } from 'node:fs';
import { type FileHandle, open, realpath, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from '../../observability/log.ts';
import {
  AUTH_LOCK_POLL_MS,
  AUTH_LOCK_TIMEOUT_MS,
  MAX_AUTH_FILE_BYTES,
  MAX_AUTH_FILE_DEPTH,
} from '../limits.ts';
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
    if (depthOf(value) > MAX_AUTH_FILE_DEPTH) {
      throw new Error(`${this.path} is nested deeper than ${MAX_AUTH_FILE_DEPTH} levels`);
    }
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

  /**
   * Replaces the file, and keeps its mode and owner. Where no file can be created beside it, overwrites it. Rejects, and keeps the old
   * content, when the new one cannot be stored or would be too long to read.
   */
  async write(value: AuthJson): Promise<void> {
    const bytes = serialized(value);
    // A symbolic link stays a link.
    const path = await realpath(this.path);
    try {
      await replaceFile(path, bytes);
    } catch (error) {
      if (DISK_FAILURES.has((error as NodeJS.ErrnoException).code ?? '')) throw error;
      await overwriteFile(path, bytes);
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

/** After these, overwriting the file would fail as well. */
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
async function replaceFile(path: string, bytes: Buffer): Promise<void> {
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
    await handle.writeFile(bytes);
    await handle.datasync();
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  } finally {
    await handle.close();
  }
}

/**
 * Overwrites the file in place. First appends the part that is longer than the old content: if the disk is full, that fails, and the
 * old content is still there. An error restores the old content.
 */
async function overwriteFile(path: string, bytes: Buffer): Promise<void> {
  const handle = await open(path, 'r+');
  try {
    const old = await handle.readFile();
    try {
      await writeAll(handle, bytes.subarray(old.length), old.length);
      await writeAll(handle, bytes.subarray(0, old.length), 0);
      await handle.truncate(bytes.length);
      await handle.datasync();
    } catch (error) {
      await handle.truncate(old.length);
      await writeAll(handle, old, 0);
      throw error;
    }
  } finally {
    await handle.close();
  }
}

/** The system may write less than it is asked to, for example on a disk that is nearly full. */
async function writeAll(handle: FileHandle, bytes: Buffer, position: number): Promise<void> {
  for (let offset = 0; offset < bytes.length; ) {
    const { bytesWritten } = await handle.write(bytes, offset, bytes.length - offset, position + offset);
    if (bytesWritten === 0) throw new Error('the system wrote nothing');
    offset += bytesWritten;
  }
}

/** Indented as by codex, or without blanks when that would be too long. Throws when both are. */
function serialized(value: AuthJson): Buffer {
  for (const indent of [2, 0]) {
    const bytes = Buffer.from(`${JSON.stringify(value, null, indent)}\n`);
    if (bytes.length <= MAX_AUTH_FILE_BYTES) return bytes;
  }
  throw new Error(
    `the new content has more than ${MAX_AUTH_FILE_BYTES} bytes; the file keeps its old content`,
  );
}

/** Levels of nested objects and arrays. Does not recurse. */
function depthOf(value: unknown): number {
  let depth = 0;
  const isNested = (member: unknown): member is object => typeof member === 'object' && member !== null;
  for (let level = [value].filter(isNested); level.length > 0; depth++) {
    level = level.flatMap((member) => Object.values(member)).filter(isNested);
  }
  return depth;
}
