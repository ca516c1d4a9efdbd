import { randomInt } from 'node:crypto';
import { constants, type Stats } from 'node:fs';
import { type FileHandle, lstat, open, readdir, rename, unlink } from 'node:fs/promises';
import {
  PART_MAX_IDLE_MS,
  SWEEP_CACHE_DIRECTORIES,
  SWEEP_INTERVAL_MS,
  TEMPORARY_MAX_IDLE_MS,
} from '../../limits.ts';
import { childOf, type LocalPath, localBlocks, nameOfPath, onLocal, parentOf } from './local-files.ts';
import type { UnfinishedFile } from './sides.ts';

/**
 * A large file of this machine that is being written. It is beside its target under the name `.NAME.exec-server-KEY.PID.part`, so that
 * a later transfer with the same key finds what this one leaves. The process id keeps two processes from writing the same part.
 */
export class LocalPart {
  readonly file: FileHandle;
  readonly path: LocalPath;
  /** Its size when it was opened. */
  readonly size: number;
  /** The file that it becomes, which errors name. */
  readonly #target: LocalPath;

  private constructor(file: FileHandle, path: LocalPath, target: LocalPath, size: number) {
    this.file = file;
    this.path = path;
    this.#target = target;
    this.size = size;
  }

  /** Opens the part that an ended process has left, or a new one. Without a key it is a new one. */
  static async open(target: LocalPath, key = 'none'): Promise<LocalPart> {
    const claimed = key === 'none' ? null : await claim(target, key);
    if (claimed !== null) return claimed;
    const own = newPath(target, key);
    return (await LocalPart.openOwn(own, target, constants.O_CREAT | constants.O_EXCL))!;
  }

  /** Opens a file under a name that this process has made. Null where it is not an own regular file. */
  static async openOwn(path: LocalPath, target: LocalPath, flags = 0): Promise<LocalPart | null> {
    inUse.add(path.text);
    let file: FileHandle | null = null;
    let part: LocalPart | null = null;
    try {
      file = await onLocal('create', target, () => open(path.bytes, OPEN_PART | flags, 0o600));
      const stats = await file.stat();
      const isNew = (flags & constants.O_EXCL) !== 0;
      if (isNew || isOwn(stats)) part = new LocalPart(file, path, target, stats.size);
      return part;
    } finally {
      if (part === null) {
        inUse.delete(path.text);
        await file?.close();
      }
    }
  }

  unfinished(): UnfinishedFile {
    const { path, file, size } = this;
    return { shown: path.text, size, blocks: () => localBlocks(path, file, 0), check: () => null };
  }

  /**
   * Writes the content from the offset on, and drops what an earlier transfer has written beyond it. The next block is received and hashed
   * while one is written.
   */
  async write(offset: number, content: AsyncIterable<Uint8Array>): Promise<void> {
    if (offset < this.size) await onLocal('write', this.#target, () => this.file.truncate(offset));
    let position = offset;
    let writing: Promise<void> = Promise.resolve();
    try {
      for await (const block of content) {
        await writing;
        writing = this.#writeBlock(block, position);
        // It is awaited later.
        writing.catch(() => {});
        position += block.length;
      }
    } catch (error) {
      // The caller closes the file next.
      await writing.catch(() => {});
      throw error;
    }
    await writing;
  }

  async #writeBlock(block: Uint8Array, position: number): Promise<void> {
    // One write may take only a part of the block when the disk gets full.
    for (let done = 0; done < block.length; ) {
      const { bytesWritten } = await onLocal('write', this.#target, () =>
        this.file.write(block, done, block.length - done, position + done),
      );
      done += bytesWritten;
    }
  }

  async remove(): Promise<void> {
    await unlink(this.path.bytes).catch(() => {});
  }

  /** Closes the file. A part without content is removed. */
  async close(): Promise<void> {
    inUse.delete(this.path.text);
    const isEmpty = await this.file.stat().then(
      ({ size, nlink }) => size === 0 && nlink > 0,
      () => false,
    );
    await this.file.close();
    if (isEmpty) {
      const named = await lstat(this.path.bytes).catch(() => null);
      if (named?.size === 0) await this.remove();
    }
  }
}

/**
 * Runs `use` with the path of a temporary file beside `target`, which `use` creates and renames. Removes the file if that fails, and
 * those that killed processes have left in the directory.
 */
export async function withTemporary(
  target: LocalPath,
  use: (temporary: LocalPath) => Promise<void>,
): Promise<void> {
  await sweep(parentOf(target));
  const temporary = newPath(target, 'none');
  inUse.add(temporary.text);
  try {
    await use(temporary);
  } catch (error) {
    await unlink(temporary.bytes).catch(() => {});
    throw error;
  } finally {
    inUse.delete(temporary.text);
  }
}

/** A hidden name that begins like that of a path. Its name is short, because the other one may be as long as names can be. */
function hiddenName(path: LocalPath, suffix: string): Buffer {
  const stem = nameOfPath(path).subarray(0, STEM_BYTES);
  return Buffer.concat([Buffer.from('.'), stem, Buffer.from(`.${suffix}`)]);
}

/** Parts and temporary files that this process is writing. */
const inUse = new Set<string>();
const STEM_BYTES = 64;
const OPEN_PART = constants.O_RDWR | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/** How the names of the parts of a target begin, in latin1. */
function startOfName(target: LocalPath, rest: string): string {
  return hiddenName(target, `exec-server-${rest}`).toString('latin1');
}

/** Other users cannot predict the number, so no file of theirs is in the way. */
function newPath(target: LocalPath, key: string): LocalPath {
  const name = `${startOfName(target, `${key}.`)}${process.pid}-${randomInt(2 ** 47)}.part`;
  return childOf(parentOf(target), Buffer.from(name, 'latin1'));
}

/**
 * Renames a part of an ended process, which only one process can do, and opens it. Returns null where there is none. Removes parts of
 * other contents of the same target, and old parts of any target.
 */
async function claim(target: LocalPath, key: string): Promise<LocalPart | null> {
  const start = startOfName(target, `${key}.`);
  // The beginning of a longer name may be that of another file.
  const ofTarget = nameOfPath(target).length <= STEM_BYTES ? startOfName(target, '') : null;
  let claimed: LocalPart | null = null;
  for await (const { name, path, stats, isOld } of leftParts(parentOf(target))) {
    if (claimed === null && name.startsWith(start) && isOwn(stats)) {
      const own = newPath(target, key);
      claimed = await rename(path.bytes, own.bytes)
        .then(() => LocalPart.openOwn(own, target))
        .catch(() => null);
    } else if ((ofTarget !== null && name.startsWith(ofTarget)) || isOld) {
      await unlink(path.bytes).catch(() => {});
    }
  }
  return claimed;
}

/** Removes old parts from a directory, with a minimum interval because reading a large directory takes long. */
async function sweep(directory: LocalPath): Promise<void> {
  const now = performance.now();
  const last = sweptAt.get(directory.text);
  if (last !== undefined && now - last < SWEEP_INTERVAL_MS) return;
  if (sweptAt.size >= SWEEP_CACHE_DIRECTORIES) sweptAt.clear();
  sweptAt.set(directory.text, now);
  for await (const { path, isOld } of leftParts(directory)) {
    if (isOld) await unlink(path.bytes).catch(() => {});
  }
}

const sweptAt = new Map<string, number>();

interface LeftPart {
  /** In latin1. */
  readonly name: string;
  readonly path: LocalPath;
  readonly stats: Stats;
  /** Whether no transfer may continue it any more. */
  readonly isOld: boolean;
}

/** The parts and temporary files in a directory that ended processes of this user have left. */
async function* leftParts(directory: LocalPath): AsyncGenerator<LeftPart, void> {
  const names = await readdir(directory.bytes, 'latin1').catch(() => []);
  for (const name of names) {
    const parsed = PART_NAME.exec(name);
    if (parsed === null) continue;
    const path = childOf(directory, Buffer.from(name, 'latin1'));
    if (inUse.has(path.text) || isAlive(Number(parsed[2]))) continue;
    const stats = await lstat(path.bytes).catch(() => null);
    if (stats === null || !isOfThisUser(stats)) continue;
    const maxIdleMs = parsed[1] === 'none' ? TEMPORARY_MAX_IDLE_MS : PART_MAX_IDLE_MS;
    yield { name, path, stats, isOld: Date.now() - stats.mtimeMs > maxIdleMs };
  }
}

/** The names of parts can be predicted. Another user who planted the file could change the content later. */
function isOwn(stats: Stats): boolean {
  return stats.isFile() && stats.nlink === 1 && isOfThisUser(stats);
}

function isOfThisUser({ uid }: Stats): boolean {
  return uid === (process.geteuid?.() ?? uid);
}

const PART_NAME = /^\..*\.exec-server-([0-9a-f]{32}|none)\.(\d+)-\d+\.part$/s;

function isAlive(pid: number): boolean {
  if (pid === process.pid) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
}
