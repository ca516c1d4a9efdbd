import { Errno, FileError, systemError } from '../../../files/errors.ts';
import type {
  DirectoryEntry,
  FileMetadata,
  FileSystem,
  WalkEntry,
  WalkOptions,
  WalkResult,
} from '../../../files/file-system.ts';
import { isWithin, lastName, type NativePath, parentPath } from '../../../files/native-path.ts';
import { uriFromPath } from '../../../files/path-uri.ts';
import type { AbsentPaths, Placement } from './absent-paths.ts';
import { type FleetingPlaces, isMask } from './fleeting-places.ts';
import { copyTreeStepwise, exists, isDirectoryItself } from './guarded-copy.ts';
import { removeTreeStepwise } from './guarded-removal.ts';

/** What files are guarded against. */
export interface FileGuard {
  readonly absent: AbsentPaths;
  /** Paths that seem not to exist. */
  readonly hidden: readonly NativePath[];
  /** Where things seem to be made that are gone when they are looked for. */
  readonly fleeting: FleetingPlaces;
}

/**
 * The same files as they would be under mounts that a helper does without: directories that must not come to exist seem to be there,
 * empty and not to be written to, and other paths that must not come to exist cannot be made. What is hidden is not found by its
 * name. What is made outside of all files of the host is gone at once, as with a sandbox that lives for one operation.
 */
export function guardFileSystem(files: FileSystem, guard: FileGuard): FileSystem {
  const { absent } = guard;
  const seen = (path: NativePath): NativePath => {
    if (guard.hidden.some((hidden) => isWithin(path, hidden))) throw systemError(Errno.ENOENT);
    return path;
  };

  const guarded: FileSystem = {
    readFile: async (path, options) => await files.readFile(seen(path), options),

    writeFile: async (path, bytes, options, waiting) => {
      refuseWrite(await absent.target(seen(path)));
      const write = () => unlessFleeting(() => files.writeFile(path, bytes, options, waiting), path);
      await (options.followSymlinks ? ofMask(write, path) : write());
    },

    createDirectory: async (path, options) => {
      const placement = await absent.target(seen(path));
      if (placement === null) await unlessFleeting(() => files.createDirectory(path, options), path);
      else if (placement.where === 'below') throw systemError(Errno.EROFS);
      else if (placement.absent.kind === 'file' || !options.recursive) throw systemError(Errno.EEXIST);
    },

    getMetadata: async (path, options) =>
      await orSeeming(
        () => files.getMetadata(seen(path), options),
        path,
        () => SEEMING_DIRECTORY,
      ),

    canonicalize: async (path) =>
      await orSeeming(
        () => files.canonicalize(seen(path)),
        path,
        ({ absent: { path: real } }) => real,
      ),

    readDirectory: async (path, options) => {
      const entries = await orSeeming(
        () => files.readDirectory(seen(path), options),
        path,
        () => [],
      );
      const visible = entries.filter(
        ({ name }) => !guard.hidden.some((hidden) => isEntry(hidden, path, name)),
      );
      return withDirectories(visible, await absent.namesIn(path));
    },

    walk: async (path, options, signal) => {
      const result = await orSeeming(
        () => files.walk(seen(path), options, signal),
        path,
        () => NOTHING_FOUND,
      );
      const visible = withoutHidden(result, guard.hidden);
      const seeming = await absent.directoriesBelow(path);
      return withWalkedDirectories(
        visible,
        path,
        seeming.filter((directory) => isEntered(parentPath(directory), path, options)),
      );
    },

    remove: async (path, options) => {
      const placement = await absent.entry(path);
      if (placement?.where === 'at') throw systemError(Errno.EBUSY);
      const missing = placement !== null || guard.hidden.some((hidden) => isWithin(path, hidden));
      if (!missing) await emptied(() => removeVisible(path, options), path);
      else if (!options.force) throw systemError(Errno.ENOENT);
    },

    copy: async (source, destination, options) => {
      refuseWrite((await absent.entry(seen(destination))) ?? (await absent.target(destination)));
      if (await needsSteps(seen(source), destination, options.recursive)) {
        await copyTreeStepwise(guarded, source, destination);
      } else {
        await ofMask(() => files.copy(source, destination, options), destination);
      }
    },

    rename: async (source, destination) => {
      const from = await absent.entry(seen(source));
      if (from !== null) throw systemError(from.where === 'at' ? Errno.EBUSY : Errno.ENOENT);
      // The place of a program's mount would move along.
      if (await absent.isAbove(source)) throw systemError(Errno.EBUSY);
      const to = await absent.entry(seen(destination));
      if (to?.where === 'below') throw systemError(Errno.EROFS);
      if (to !== null || (await absent.isAbove(destination))) throw systemError(Errno.EBUSY);
      await files.rename(source, destination);
    },

    open: async (path, mode, options) => {
      if (mode !== 'read') refuseWrite(await absent.target(seen(path)));
      return await files.open(seen(path), mode, options);
    },
  };

  /** A copy that makes a new directory somewhere meets nothing on its way. */
  const needsSteps = async (source: NativePath, destination: NativePath, recursive: boolean) => {
    if (absent.isEmpty || !recursive || !(await isDirectoryItself(source))) return false;
    return (await exists(destination)) || (await absent.isAbove(destination));
  };

  const removeVisible: FileSystem['remove'] = async (path, options) => {
    const isTree = options.recursive && options.followSymlinks && (await isDirectoryItself(path));
    if (isTree && (await absent.isAbove(path))) await removeTreeStepwise(files, absent, path);
    else await files.remove(path, options);
  };

  const unlessFleeting = async (make: () => Promise<void>, path: NativePath): Promise<void> => {
    try {
      await make();
    } catch (error) {
      if (!isErrno(error, Errno.EROFS) || !(await guard.fleeting.hold(path))) throw error;
    }
  };

  /** A directory that cannot be removed itself because it is mounted seems to be kept by the directories that seem to be in it. */
  const emptied = async (remove: () => Promise<void>, path: NativePath): Promise<void> => {
    try {
      await remove();
    } catch (error) {
      const isBusy = isErrno(error, Errno.EROFS) && (await absent.directoriesBelow(path)).length > 0;
      throw isBusy ? systemError(Errno.EBUSY) : error;
    }
  };

  /**
   * A file that is mounted over a denied one cannot be emptied because it is read-only, and cannot be opened because of its mode. The
   * reference's writes begin with emptying, except where no links are followed.
   */
  const ofMask = async (make: () => Promise<void>, path: NativePath): Promise<void> => {
    try {
      await make();
    } catch (error) {
      throw isErrno(error, Errno.EACCES) && (await isMask(path)) ? systemError(Errno.EROFS) : error;
    }
  };

  const orSeeming = async <T>(
    look: () => Promise<T>,
    path: NativePath,
    seeming: (placement: Placement) => T,
  ): Promise<T> => {
    try {
      return await look();
    } catch (error) {
      if (!isErrno(error, Errno.ENOENT)) throw error;
      const placement = await absent.target(path);
      if (placement?.where !== 'at' || placement.absent.kind !== 'directory') throw error;
      return seeming(placement);
    }
  };

  return guarded;
}

/** An empty directory as the reference's sandbox has it, of the age of nothing. */
const SEEMING_DIRECTORY: FileMetadata = {
  isDirectory: true,
  isFile: false,
  isSymlink: false,
  size: 40,
  createdAtMs: 0,
  modifiedAtMs: 0,
};

const NOTHING_FOUND: WalkResult = { entries: [], errors: [], truncated: false };

/** A directory cannot be written as a file; anything else could, were it not read-only. */
function refuseWrite(placement: Placement | null): void {
  if (placement === null) return;
  const isDirectory = placement.where === 'at' && placement.absent.kind === 'directory';
  throw systemError(isDirectory ? Errno.EISDIR : Errno.EROFS);
}

function isErrno(error: unknown, errno: number): boolean {
  return error instanceof FileError && error.errno === errno;
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

/** Whether a walk that starts at `root` looks into a directory below it, if there is one. */
function isEntered(directory: NativePath, root: NativePath, options: WalkOptions): boolean {
  const names = directory
    .slice(root.length)
    .split('/')
    .filter((name) => name !== '');
  if (names.length > options.maxDepth) return false;
  return !options.pruneHiddenDirectories || !names.some((name) => name.startsWith('.'));
}

/** Puts the directories among the entries next to which they seem to be, in byte order. Those in a directory that was not reached stay out. */
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
    const place = after >= 0 ? after : end > 0 ? end : isFirst ? 0 : entries.length;
    entries.splice(place, 0, { uri, kind: 'directory' });
  }
  return { ...result, entries };
}
