import type { FileSystem, OpenFile } from './file-system.ts';

/** The same files; `enter` is asked before a file is opened for longer, may refuse by throwing, and returns what to call at its end. */
export function countHandles(files: FileSystem, enter: () => () => void): FileSystem {
  return {
    ...files,
    open: async (path, mode) => {
      const leave = enter();
      try {
        return counted(await files.open(path, mode), leave);
      } catch (error) {
        leave();
        throw error;
      }
    },
  };
}

function counted(file: OpenFile, leave: () => void): OpenFile {
  return {
    read: (position, length, into) => file.read(position, length, into),
    write: (position, bytes) => file.write(position, bytes),
    close: () => file.close().finally(leave),
    discard: () => file.discard().finally(leave),
  };
}
