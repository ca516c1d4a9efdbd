import { Errno, isErrno, refused, systemError } from './errors.ts';
import type { FileSystem } from './file-system.ts';
import { withParentOpen } from './local/no-follow.ts';
import { childPath, isWithin, type NativePath, parentPath, textOfNativePath } from './native-path.ts';

/**
 * The same files, restricted to those below `root`, the real path of a directory. No symbolic link is followed, not even one that
 * leads back inside. Operations keep the directories open that they work in, so that a concurrent rename or link cannot redirect a
 * read, write, listing or removal to the outside. The root itself cannot be changed. Hard links and mounts inside the root count as
 * inside: their creator is responsible for them.
 */
export function restrictToRoot(files: FileSystem, root: NativePath): FileSystem {
  return restricted(files, root, withParentOpen);
}

/**
 * The same for files of another process, whose sandbox already hides everything outside of the root. Descriptors of this process mean
 * nothing there, so a link that another process inserts meanwhile may be followed; the sandbox keeps that inside.
 */
export function restrictSandboxToRoot(files: FileSystem, root: NativePath): FileSystem {
  return restricted(files, root, async (path, use) => {
    const parent = parentPath(path);
    if ((await files.canonicalize(parent)) !== parent) throw systemError(Errno.ENOTDIR);
    return await use(path);
  });
}

/** `withEntry` runs `use` on the last entry of a path. A link before the last name is an error. */
function restricted(files: FileSystem, root: NativePath, withEntry: typeof withParentOpen): FileSystem {
  const inside = (path: NativePath): NativePath => {
    // By name alone `/root/../other` would be inside, and not every path arrives with its dots resolved.
    if (!isWithin(path, root) || hasDots(path)) throw refused(`path is not within ${textOfNativePath(root)}`);
    return path;
  };
  const below = (path: NativePath): NativePath => {
    if (path === root) throw refused(`${textOfNativePath(root)} itself cannot be changed, only its contents`);
    return inside(path);
  };
  return {
    readFile: async (path) => await files.readFile(inside(path), NO_LINKS),
    writeFile: async (path, bytes, _, waiting) =>
      await files.writeFile(below(path), bytes, NO_LINKS, waiting),
    getMetadata: async (path) => await files.getMetadata(inside(path), NO_LINKS),
    hash: async (path, _, signal) => await files.hash(inside(path), NO_LINKS, signal),
    readDirectory: async (path) => await files.readDirectory(inside(path), NO_LINKS),
    list: async (path) => await files.list(inside(path), NO_LINKS),
    open: async (path, mode) =>
      await files.open(mode === 'read' ? inside(path) : below(path), mode, NO_LINKS),
    walk: async (path, options, signal) =>
      await files.walk(inside(path), { ...options, ...NO_LINKS, followDirectorySymlinks: false }, signal),

    /** An existing path without links is its own real path. */
    canonicalize: async (path) => {
      await files.getMetadata(inside(path), NO_LINKS);
      return path;
    },

    createDirectory: async (path, { recursive }) => {
      const directories = recursive ? pathsBetween(root, below(path)) : [below(path)];
      for (const directory of directories) {
        try {
          await files.createDirectory(directory, { ...NO_LINKS, recursive: false });
        } catch (error) {
          if (!recursive || !isErrno(error, Errno.EEXIST)) throw error;
        }
      }
      if (recursive && !(await files.getMetadata(path, NO_LINKS)).isDirectory) {
        throw refused('the path exists and is not a directory');
      }
    },

    /** Follows no links to the entry. The removal follows no links below the entry. */
    remove: async (path, options) => {
      below(path);
      try {
        await withEntry(path, (entry) => files.remove(entry, { ...options, followSymlinks: true }));
      } catch (error) {
        if (!options.force || !isErrno(error, Errno.ENOENT)) throw error;
      }
    },

    /** rename(2) follows no link at the end of either path. */
    rename: async (source, destination) => {
      below(source);
      below(destination);
      await withEntry(source, (from) => withEntry(destination, (to) => files.rename(from, to)));
    },

    /** It follows no link at the end of the path. */
    setAttributes: async (path, attributes) => {
      below(path);
      await withEntry(path, (entry) => files.setAttributes(entry, attributes));
    },

    /** Other clients would follow a link that leads outside. One that leads inside may be moved until it does not. */
    createLink: async () => {
      throw refused(
        `fs/createLink is not available to a client that is restricted to ${textOfNativePath(root)}`,
      );
    },

    copy: async () => {
      throw refused(`fs/copy is not available to a client that is restricted to ${textOfNativePath(root)}`);
    },
  };
}

const NO_LINKS = { followSymlinks: false } as const;

function hasDots(path: NativePath): boolean {
  return /\/\.{1,2}(?:\/|$)/.test(path);
}

/** The paths below `root` down to `path`. */
function pathsBetween(root: NativePath, path: NativePath): NativePath[] {
  const names = path
    .slice(root.length)
    .split('/')
    .filter((name) => name !== '');
  let current = root;
  return names.map((name) => {
    current = childPath(current, name);
    return current;
  });
}
