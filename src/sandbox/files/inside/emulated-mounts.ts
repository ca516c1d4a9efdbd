import { Errno, isErrno, systemError } from '../../../files/errors.ts';
import type {
  DirectoryEntry,
  FileAttributes,
  FileMetadata,
  FileSystem,
  PathListing,
  WalkEntry,
  WalkOptions,
  WalkResult,
} from '../../../files/file-system.ts';
import { isWithin, lastName, type NativePath, parentPath } from '../../../files/native-path.ts';
import { uriFromPath } from '../../../files/path-uri.ts';
import type { AbsentPaths, Placement } from './absent-paths.ts';
import { type AddedDirectories, isMask, protectedName } from './added-directories.ts';
import { copyTreeStepwise, exists, isDirectoryItself, removeTreeStepwise } from './stepwise-tree.ts';

/** Mounts that a program would have and a file helper has not. */
interface EmulatedMounts {
  readonly absent: AbsentPaths;
  /** Paths that are reported as missing. */
  readonly hidden: readonly NativePath[];
  /** Directories of the sandbox that are not those of the host. */
  readonly added: AddedDirectories;
}

/**
 * Makes a file system answer as if the sandbox had mounts that a helper does without:
 * - An absent directory is reported as an empty read-only directory. No absent path can be created.
 * - A hidden path is reported as missing.
 *
 * After a success the host has what was asked for: a request that only the sandbox's own directories would fulfil is refused.
 */
export function emulateMounts(files: FileSystem, mounts: EmulatedMounts): FileSystem {
  const { absent, added } = mounts;
  const requireVisible = (path: NativePath): NativePath => {
    if (mounts.hidden.some((hidden) => isWithin(path, hidden))) throw systemError(Errno.ENOENT);
    return path;
  };

  const emulated: FileSystem = {
    readFile: async (path, options) => await files.readFile(requireVisible(path), options),

    hash: async (path, options, signal) => await files.hash(requireVisible(path), options, signal),

    writeFile: async (path, bytes, options, waiting) => {
      refuseWrite(await absent.target(requireVisible(path)));
      const write = () => added.explain(() => files.writeFile(path, bytes, options, waiting), path);
      await (options.followSymlinks ? ofMask(write, path) : write());
    },

    createDirectory: async (path, options) => {
      const placement = await absent.target(requireVisible(path));
      if (placement !== null) {
        if (placement.where === 'below') throw systemError(Errno.EROFS);
        if (placement.absent.kind === 'file' || !options.recursive) throw systemError(Errno.EEXIST);
        throw protectedName(path);
      }
      await added.explain(() => files.createDirectory(path, options), path);
      // It may have existed before.
      await added.refuseTarget(path);
    },

    getMetadata: async (path, options) =>
      await orEmulated(
        () => files.getMetadata(requireVisible(path), options),
        path,
        () => EMULATED_DIRECTORY,
      ),

    canonicalize: async (path) =>
      await orEmulated(
        () => files.canonicalize(requireVisible(path)),
        path,
        ({ absent: { path: real } }) => real,
      ),

    readDirectory: async (path, options) => {
      const entries = await orEmulated(
        () => files.readDirectory(requireVisible(path), options),
        path,
        () => [],
      );
      const visible = entries.filter(
        ({ name }) => !mounts.hidden.some((hidden) => isEntry(hidden, path, name)),
      );
      return withDirectories(visible, await absent.namesIn(path));
    },

    walk: async (path, options, signal) => {
      const result = await orEmulated(
        () => files.walk(requireVisible(path), options, signal),
        path,
        () => NOTHING_FOUND,
      );
      const visible = withoutHidden(result, mounts.hidden);
      const directories = await absent.directoriesBelow(path);
      return withWalkedDirectories(
        visible,
        path,
        directories.filter((directory) => isEntered(parentPath(directory), path, options)),
      );
    },

    remove: async (path, options) => {
      const placement = await absent.entry(path);
      if (placement?.where === 'at') throw systemError(Errno.EBUSY);
      const missing = placement !== null || mounts.hidden.some((hidden) => isWithin(path, hidden));
      if (!missing) await emptied(() => removeVisible(path, options), path);
      else if (!options.force) throw systemError(Errno.ENOENT);
      // It may have been missing before.
      await added.refuseEntry(path);
    },

    copy: async (source, destination, options) => {
      refuseWrite((await absent.entry(requireVisible(destination))) ?? (await absent.target(destination)));
      requireVisible(source);
      const isTree = options.recursive && (await isDirectoryItself(source));
      if (isTree) await added.refuseIncomplete(source);
      if (isTree && (await mayMeetAbsent(destination))) {
        await copyTreeStepwise(emulated, source, destination);
      } else {
        const copy = () => added.explain(() => files.copy(source, destination, options), destination);
        await ofMask(copy, destination);
      }
    },

    rename: async (source, destination) => {
      const from = await absent.entry(requireVisible(source));
      if (from !== null) throw systemError(from.where === 'at' ? Errno.EBUSY : Errno.ENOENT);
      // A mount point of a running program would move along.
      if (await absent.isAbove(source)) throw systemError(Errno.EBUSY);
      const to = await absent.entry(requireVisible(destination));
      if (to?.where === 'below') throw systemError(Errno.EROFS);
      if (to !== null || (await absent.isAbove(destination))) throw systemError(Errno.EBUSY);
      await added.explain(() => files.rename(source, destination), destination, source);
    },

    list: async (path, options) => {
      const { attributes, entries } = await orEmulated<PathListing>(
        () => files.list(requireVisible(path), options),
        path,
        () => ({ attributes: EMULATED_ATTRIBUTES, entries: [] }),
      );
      if (entries === null) return { attributes, entries };
      // Unlike the reference's methods, this one shows what is there: not the empty directories that protect names.
      return {
        attributes,
        entries: entries.filter(({ name }) => !mounts.hidden.some((hidden) => isEntry(hidden, path, name))),
      };
    },

    setAttributes: async (path, attributes) => {
      const placement = await absent.entry(requireVisible(path));
      if (placement !== null) throw systemError(placement.where === 'at' ? Errno.EROFS : Errno.ENOENT);
      await added.explain(() => files.setAttributes(path, attributes), path);
    },

    createLink: async (path, target, options) => {
      const placement = await absent.entry(requireVisible(path));
      if (placement !== null) {
        if (placement.where === 'below') throw systemError(Errno.EROFS);
        throw systemError(options.replace ? Errno.EBUSY : Errno.EEXIST);
      }
      await added.explain(() => files.createLink(path, target, options), path);
    },

    open: async (path, mode, options) => {
      if (mode !== 'read') refuseWrite(await absent.target(requireVisible(path)));
      return await added.explain(() => files.open(requireVisible(path), mode, options), path);
    },
  };

  /** A copy to a new directory cannot meet an absent path, unless one is below the destination. */
  const mayMeetAbsent = async (destination: NativePath) =>
    !absent.isEmpty && ((await exists(destination)) || (await absent.isAbove(destination)));

  const removeVisible: FileSystem['remove'] = async (path, options) => {
    const isTree = options.recursive && options.followSymlinks && (await isDirectoryItself(path));
    if (isTree && (await absent.isAbove(path))) await removeTreeStepwise(files, absent, path);
    else await files.remove(path, options);
  };

  /** A mounted directory cannot be removed. With emulated directories in it, the error is EBUSY instead of EROFS. */
  const emptied = async (remove: () => Promise<void>, path: NativePath): Promise<void> => {
    try {
      await added.explain(remove, path);
    } catch (error) {
      const isBusy = isErrno(error, Errno.EROFS) && (await absent.directoriesBelow(path)).length > 0;
      throw isBusy ? systemError(Errno.EBUSY) : error;
    }
  };

  /**
   * A mask cannot be truncated because its mount is read-only, and cannot be opened because of its mode. The reference truncates first,
   * except where it follows no links, so its error is EROFS.
   */
  const ofMask = async (make: () => Promise<void>, path: NativePath): Promise<void> => {
    try {
      await make();
    } catch (error) {
      throw isErrno(error, Errno.EACCES) && (await isMask(path)) ? systemError(Errno.EROFS) : error;
    }
  };

  const orEmulated = async <T>(
    read: () => Promise<T>,
    path: NativePath,
    emulated: (placement: Placement) => T,
  ): Promise<T> => {
    try {
      return await read();
    } catch (error) {
      if (!isErrno(error, Errno.ENOENT)) throw error;
      const placement = await absent.target(path);
      if (placement?.where !== 'at' || placement.absent.kind !== 'directory') throw error;
      return emulated(placement);
    }
  };

  return emulated;
}

/** The metadata of an empty directory in the reference's sandbox. */
const EMULATED_DIRECTORY: FileMetadata = {
  isDirectory: true,
  isFile: false,
  isSymlink: false,
  size: 40,
  createdAtMs: 0,
  modifiedAtMs: 0,
};

const EMULATED_ATTRIBUTES: FileAttributes = {
  kind: 'directory',
  size: EMULATED_DIRECTORY.size,
  mode: 0o555,
  modifiedAtMs: 0,
};

const NOTHING_FOUND: WalkResult = { entries: [], errors: [], truncated: false };

/** Writing to an absent directory fails with EISDIR, writing to any other absent path with EROFS. */
function refuseWrite(placement: Placement | null): void {
  if (placement === null) return;
  const isDirectory = placement.where === 'at' && placement.absent.kind === 'directory';
  throw systemError(isDirectory ? Errno.EISDIR : Errno.EROFS);
}

function isEntry(path: NativePath, directory: NativePath, name: string): boolean {
  return lastName(path) === name && parentPath(path) === directory;
}

function withDirectories(entries: DirectoryEntry[], names: readonly string[]): DirectoryEntry[] {
  const known = new Set(entries.map(({ name }) => name));
  const added = names.filter((name) => !known.has(name));
  return [...entries, ...added.map((name) => ({ name, isDirectory: true, isFile: false }))];
}

function withoutHidden(result: WalkResult, hidden: readonly NativePath[]): WalkResult {
  if (hidden.length === 0) return result;
  const uris = hidden.map(uriFromPath);
  const isHidden = ({ uri }: { readonly uri: string }) =>
    uris.some((other) => uri === other || uri.startsWith(`${other}/`));
  return {
    ...result,
    entries: result.entries.filter((entry) => !isHidden(entry)),
    errors: result.errors.filter((error) => !isHidden(error)),
  };
}

/** Whether a walk that starts at `root` would enter this directory. */
function isEntered(directory: NativePath, root: NativePath, options: WalkOptions): boolean {
  const names = directory
    .slice(root.length)
    .split('/')
    .filter((name) => name !== '');
  if (names.length > options.maxDepth) return false;
  return !options.pruneHiddenDirectories || !names.some((name) => name.startsWith('.'));
}

/** Inserts emulated directories next to their siblings, in byte order. Skips those in a directory that the walk did not reach. */
function withWalkedDirectories(
  result: WalkResult,
  root: NativePath,
  directories: readonly NativePath[],
): WalkResult {
  const entries: WalkEntry[] = [...result.entries];
  const reached = new Set(entries.filter(({ kind }) => kind === 'directory').map(({ uri }) => uri));
  reached.add(uriFromPath(root));
  for (const directory of directories) {
    const parent = uriFromPath(parentPath(directory));
    const uri = uriFromPath(directory);
    if (directory === root || !reached.has(parent) || reached.has(uri)) continue;
    const isSibling = (entry: WalkEntry) =>
      entry.uri.startsWith(`${parent}/`) && !entry.uri.includes('/', parent.length + 1);
    const after = entries.findIndex((entry) => isSibling(entry) && entry.uri > uri);
    const end = entries.findLastIndex(isSibling) + 1;
    const isFirst = end === 0 && parent === uriFromPath(root);
    const index = after >= 0 ? after : end > 0 ? end : isFirst ? 0 : entries.length;
    entries.splice(index, 0, { uri, kind: 'directory' });
  }
  return { ...result, entries };
}
