import type { BigIntStats } from 'node:fs';
import { access, constants, lstat, open, readlink } from 'node:fs/promises';
import { errorCode } from '../../files/errors.ts';
import { directoryBatches, type ListedEntry } from '../../files/local/directory-listing.ts';
import { type NativePath, systemPath } from '../../files/native-path.ts';

export type FileType = 'directory' | 'file' | 'link' | 'other';

/** What is known about a file without opening it. */
export interface FileFacts {
  readonly type: FileType;
  /** Tells the file from every other one, its successors included, as far as the file system notes when they are made. */
  readonly identity: string;
  readonly mode: number;
  readonly uid: number;
}

/** The looks at the disk that a plan takes. All but `facts` throw what the system says. */
export interface FileProbe {
  /** Null where there is nothing, `unreachable` where the server may not look. No link is followed at the end. */
  facts(path: NativePath): Promise<FileFacts | 'unreachable' | null>;
  /** The target of a symbolic link, in bytes. */
  linkTarget(path: NativePath): Promise<string>;
  /** What is in a directory, piece by piece. */
  entries(directory: NativePath): AsyncIterable<readonly ListedEntry[]>;
  /** The first bytes of a file. */
  beginning(path: NativePath, maxBytes: number): Promise<string>;
  /** Whether the server's user could make something in the directory, or give itself the right to. */
  mayCreateIn(directory: NativePath): Promise<boolean>;
}

/** This machine's disk. */
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
 * The number of a file that is removed is given to the next one, often at once, and mounts go with the name that they lie on: a file
 * that was removed and made again looks the same but for its age. Where that is not noted the last change has to do, which tells
 * nothing about directories, because theirs comes with everything that is made in them.
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
