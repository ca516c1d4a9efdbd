import { constants, type Stats } from 'node:fs';
import { type FileHandle, lstat, open } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { withTimeout } from '../../base/with-timeout.ts';
import { errorCode } from '../errors.ts';
import { PART_CLAIM_POLL_MS, PART_RELEASE_WAIT_MS } from '../limits.ts';
import { childPath, lastName, type NativePath, parentPath, systemPath } from '../native-path.ts';
import { claimFile, type FileClaim } from './file-claim.ts';
import { partName } from './temporary-files.ts';

/**
 * The unfinished file of a resumable replacement. It is beside the target, under a name that the target and the key determine, so
 * that a later replacement finds it, also one of another server. At most one replacement of this machine uses it at a time.
 */
export class ReplacementFile {
  readonly handle: FileHandle;
  readonly path: NativePath;
  /** Its size when it was opened. */
  readonly size: number;
  readonly #claim: FileClaim;

  constructor(handle: FileHandle, path: NativePath, size: number, claim: FileClaim) {
    this.handle = handle;
    this.path = path;
    this.size = size;
    this.#claim = claim;
  }

  /**
   * Opens the part or creates it. Null when its name is taken by something else, or when another replacement still uses it after a
   * while: a client that reconnects may come before the end of its old connection.
   */
  static async open(target: NativePath, key: string): Promise<ReplacementFile | null> {
    const path = childPath(parentPath(target), partName(lastName(target), key));
    const used = inUse.get(path);
    if (used !== undefined) await withTimeout(used.released, PART_RELEASE_WAIT_MS);
    if (inUse.has(path)) return null;
    inUse.set(path, releasable());
    let part: ReplacementFile | null = null;
    try {
      part = await openOwn(path);
      return part;
    } finally {
      if (part === null) release(path);
    }
  }

  async hasContent(): Promise<boolean> {
    return await this.handle.stat().then(
      ({ size }) => size > 0,
      () => false,
    );
  }

  /** Lets another replacement use the part. The caller has closed it, and renamed or removed it if it does not stay. */
  release(): void {
    this.#claim.release();
    release(this.path);
  }
}

/** Parts that are open for writing in this process. */
const inUse = new Map<NativePath, Releasable>();

interface Releasable {
  readonly released: Promise<void>;
  release(): void;
}

function releasable(): Releasable {
  let release = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  return { released, release };
}

function release(path: NativePath): void {
  inUse.get(path)?.release();
  inUse.delete(path);
}

/**
 * Other users could have put a link or a file of theirs under the name, which is predictable. Such a file is not written. Null for it,
 * and when another process still has the part after a while.
 */
async function openOwn(path: NativePath): Promise<ReplacementFile | null> {
  const deadline = performance.now() + PART_RELEASE_WAIT_MS;
  for (;;) {
    const handle = await openPart(path);
    if (handle === null) return null;
    let claim: FileClaim | null = null;
    let part: ReplacementFile | null = null;
    try {
      if (!isOwn(await handle.stat())) return null;
      claim = await claimFile(handle.fd);
      // Another process may have given the part its name, or removed it, before the claim.
      if (claim !== null && (await isAt(path, handle))) {
        const stats = await handle.stat();
        if (stats.nlink !== 1) return null;
        part = new ReplacementFile(handle, path, stats.size, claim);
        return part;
      }
    } finally {
      if (part === null) {
        claim?.release();
        await handle.close();
      }
    }
    if (performance.now() > deadline) return null;
    await delay(PART_CLAIM_POLL_MS);
  }
}

async function openPart(path: NativePath): Promise<FileHandle | null> {
  try {
    return await open(systemPath(path), WRITE_WITHOUT_TRUNCATING, PRIVATE_MODE);
  } catch (error) {
    if (TAKEN.has(errorCode(error) ?? '')) return null;
    throw error;
  }
}

function isOwn(stats: Stats): boolean {
  return stats.isFile() && stats.uid === process.geteuid?.();
}

async function isAt(path: NativePath, handle: FileHandle): Promise<boolean> {
  const [opened, named] = await Promise.all([handle.stat(), lstat(systemPath(path)).catch(() => null)]);
  return named !== null && opened.dev === named.dev && opened.ino === named.ino;
}

const { O_WRONLY, O_CREAT, O_NOFOLLOW, O_NONBLOCK, O_NOCTTY } = constants;
const WRITE_WITHOUT_TRUNCATING = O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
const PRIVATE_MODE = 0o600;
/** A link, a directory, a FIFO, or a file of another user. */
const TAKEN: ReadonlySet<string> = new Set(['ELOOP', 'EISDIR', 'ENXIO', 'EACCES', 'EPERM']);
