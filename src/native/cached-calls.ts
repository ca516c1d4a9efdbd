import { closeSync, constants } from 'node:fs';
import { stat, statfs } from 'node:fs/promises';
import { koffi } from './koffi.ts';

/** System calls that answer from the kernel's caches or not at all. They never wait for a disk, a network or a driver. */
export interface CachedCalls {
  /**
   * Opens an O_PATH descriptor, closed on exec. Returns `missing` when the cache knows that the path does not exist. Returns null
   * when the path is not cached, crosses a mount point, even one that only another process sees, or cannot be opened. The path
   * holds bytes, one per character.
   */
  openPath(path: string, links: Links): number | 'missing' | null;
  /** The same for reading. Opens a file of any type if that does not block. The devices in `/dev` are behind a mount point. */
  openFile(path: string, links: Exclude<Links, 'endKept'>): number | 'missing' | null;
  /** The content of a small file with this size; null when it is large, has another length, or is not cached. */
  readSmall(fd: number, size: number): Buffer | null;
  /**
   * Reads into `buffer` at `start` and returns the number of bytes; null when the bytes are not cached or cannot be read this way.
   */
  read(fd: number, buffer: Buffer, start: number, position: number): number | null;
}

/** How symbolic links in a path are handled: all are followed, the last one is opened itself, or any link is an error. */
export type Links = 'followed' | 'endKept' | 'refused';

/**
 * Loads the calls. Rejects if the kernel does not support them (before 5.12) or they are forbidden. Rejects if the root directory
 * is not on a local disk, because a network file system may block despite the flags. Rejects if the devices are on the same file
 * system as the root, because then they would be opened.
 */
export async function loadCachedCalls(): Promise<CachedCalls> {
  const { type } = await statfs('/');
  if (!LOCAL_FILE_SYSTEMS.has(type)) throw new Error('the root directory is not on a local file system');
  if ((await stat('/dev')).dev === (await stat('/')).dev)
    throw new Error('the devices are on the file system of the root directory');
  const library = koffi.load('libc.so.6');
  const syscall = library.func(
    'long syscall(long number, int directory, const void *path, const void *how, size_t size)',
  );
  const preadv2 = library.func(
    'long preadv2(int fd, const void *vectors, int count, long offset, int flags)',
  );
  const vector = new BigUint64Array(2);
  const small = Buffer.allocUnsafeSlow(SMALL_FILE_BYTES + 1);
  const smallVector = new BigUint64Array([koffi.address(small), BigInt(small.length)]);

  const open = (path: string, how: BigUint64Array): number | 'missing' | null => {
    const name = Buffer.from(`${path}\0`, 'latin1');
    const fd = Number(syscall(SYS_OPENAT2, AT_FDCWD, name, how, how.byteLength));
    if (fd >= 0) return fd;
    return koffi.errno() === ENOENT ? 'missing' : null;
  };
  const openPath: CachedCalls['openPath'] = (path, links) => open(path, NAMED[links]);
  const root = openPath('/', 'followed');
  if (typeof root === 'number') closeSync(root);
  // The kernel knows the call, but the answer was not in its cache at this moment.
  else if (koffi.errno() !== EAGAIN) throw new Error(`openat2 failed with errno ${koffi.errno()}`);

  return {
    openPath,
    openFile: (path, links) => open(path, READ[links]),
    readSmall(fd, size) {
      if (size > SMALL_FILE_BYTES) return null;
      const count = Number(preadv2(fd, smallVector, 1, 0, RWF_NOWAIT));
      return count === size ? Buffer.from(small.subarray(0, size)) : null;
    },
    read(fd, buffer, start, position) {
      vector[0] = koffi.address(buffer) + BigInt(start);
      vector[1] = BigInt(buffer.length - start);
      const count = Number(preadv2(fd, vector, 1, position, RWF_NOWAIT));
      return count < 0 ? null : count;
    },
  };
}

/** A `struct open_how`. */
function openHow(flags: bigint, resolve: bigint): BigUint64Array {
  return new BigUint64Array([flags, 0n, resolve]);
}

/** Up to this size one more copy is cheaper than asking the caller for a buffer. */
const SMALL_FILE_BYTES = 16 * 1024;

/** The same number on every architecture. */
const SYS_OPENAT2 = 437;
const AT_FDCWD = -100;
const O_PATH = 0o10000000n;
const O_CLOEXEC = 0o2000000n;
/** The number differs on arm64. */
const O_NOFOLLOW = BigInt(constants.O_NOFOLLOW);
const O_RDONLY = 0n;
const O_NOCTTY = 0o400n;
const O_NONBLOCK = 0o4000n;
const ENOENT = 2;
const EAGAIN = 11;
const RESOLVE_NO_XDEV = 0x01n;
const RESOLVE_NO_SYMLINKS = 0x04n;
const RESOLVE_CACHED = 0x20n;
const RWF_NOWAIT = 0x08;

/** ext2 to ext4, XFS, Btrfs, F2FS, tmpfs, and overlayfs, whose layers are controlled by the operator of the server. */
const LOCAL_FILE_SYSTEMS: ReadonlySet<number> = new Set([
  0xef53, 0x58465342, 0x9123683e, 0xf2f52010, 0x01021994, 0x794c7630,
]);

const CACHED: Readonly<Record<'followed' | 'refused', bigint>> = {
  followed: RESOLVE_CACHED | RESOLVE_NO_XDEV,
  refused: RESOLVE_CACHED | RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS,
};
const NAMED: Readonly<Record<Links, BigUint64Array>> = {
  followed: openHow(O_PATH | O_CLOEXEC, CACHED.followed),
  endKept: openHow(O_PATH | O_CLOEXEC | O_NOFOLLOW, CACHED.followed),
  refused: openHow(O_PATH | O_CLOEXEC, CACHED.refused),
};
const WITHOUT_WAITING = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
const READ: Readonly<Record<'followed' | 'refused', BigUint64Array>> = {
  followed: openHow(WITHOUT_WAITING, CACHED.followed),
  refused: openHow(WITHOUT_WAITING, CACHED.refused),
};
