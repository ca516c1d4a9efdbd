import type { BigIntStats } from 'node:fs';
import { access, constants, lstat, open, readFile, readlink } from 'node:fs/promises';
import { errorCode } from '../../files/errors.ts';
import { directoryBatches, type ListedEntry } from '../../files/local/directory-listing.ts';
import { type NativePath, systemPath } from '../../files/native-path.ts';
import { type KernelMount, kernelMountsOf, MOUNT_TABLE } from './kernel-mounts.ts';

type FileType = 'directory' | 'file' | 'link' | 'other';

/** What is known about a file without opening it. */
export interface FileFacts {
  readonly type: FileType;
  /** Differs for every file, also for a successor with the same inode number if the file system records birth times. */
  readonly identity: string;
  readonly mode: number;
  readonly uid: number;
}

/** The disk accesses that a plan needs. All but `facts` throw system errors. */
export interface FileProbe {
  /** Null when the path does not exist, `unreachable` when the server lacks permission. Does not follow a link at the end. */
  facts(path: NativePath): Promise<FileFacts | 'unreachable' | null>;
  /** The target of a symbolic link, in bytes. */
  linkTarget(path: NativePath): Promise<string>;
  /** The entries of a directory, in batches. */
  entries(directory: NativePath): AsyncIterable<readonly ListedEntry[]>;
  /** The first bytes of a file. */
  beginning(path: NativePath, maxBytes: number): Promise<string>;
  /** Whether the server's user can create entries in the directory, or can grant itself that permission. */
  mayCreateIn(directory: NativePath): Promise<boolean>;
  /** The file systems of the kernel that are mounted on this machine. */
  kernelMounts(): Promise<readonly KernelMount[]>;
}

/** Probes the local disk. */
export const localProbe: FileProbe = {
  facts: async (path) => {
    try {
      return factsOf(await lstat(systemPath(path), { bigint: true }));
    } catch (error) {
      const code = errorCode(error);
      if (code === 'ENOENT' || code === 'ENOTDIR') return null;
      if (code === 'EACCES') return 'unreachable';
      throw error;
    }
  },

  linkTarget: async (path) => await readlink(systemPath(path), 'latin1'),

  entries: directoryBatches,

  beginning: async (path, maxBytes) => {
    const file = await open(
      systemPath(path),
      constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK,
    );
    try {
      const { buffer, bytesRead } = await file.read(Buffer.alloc(maxBytes), 0, maxBytes, 0);
      return buffer.toString('latin1', 0, bytesRead);
    } finally {
      await file.close();
    }
  },

  mayCreateIn: async (directory) => {
    try {
      await access(systemPath(directory), constants.W_OK);
      return true;
    } catch (error) {
      const code = errorCode(error);
      if (code === 'EROFS') return false;
      if (code !== 'EACCES') throw error;
      return (await lstat(systemPath(directory))).uid === process.geteuid?.();
    }
  },

  kernelMounts: async () => kernelMountsOf(await readFile(MOUNT_TABLE, 'latin1')),
};

export function factsOf(stats: BigIntStats): FileFacts {
  const type = typeOf(stats);
  return {
    type,
    identity: `${stats.dev}:${stats.ino}:${type}:${birthOf(stats, type)}`,
    mode: Number(stats.mode & 0o7777n),
    uid: Number(stats.uid),
  };
}

/**
 * File systems reuse inode numbers, often immediately, and a mount disappears with the directory entry under it. A file that was removed
 * and created again differs only in its birth time. Where that is not recorded, the change time is used, except for directories: theirs
 * changes with every entry that is created in them.
 */
function birthOf({ birthtimeNs, ctimeNs }: BigIntStats, type: FileType): bigint {
  return birthtimeNs === 0n && type !== 'directory' ? ctimeNs : birthtimeNs;
}

interface TypedFile {
  isDirectory(): boolean;
  isFile(): boolean;
  isSymbolicLink(): boolean;
}

function typeOf(file: TypedFile): FileType {
  if (file.isDirectory()) return 'directory';
  if (file.isFile()) return 'file';
  return file.isSymbolicLink() ? 'link' : 'other';
}
