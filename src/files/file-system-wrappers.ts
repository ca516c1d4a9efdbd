import { once } from '../base/once.ts';
import {
  FILE_OPERATIONS,
  type FileContent,
  type FileOperationName,
  type FileSystem,
  type OpenFile,
} from './file-system.ts';

/** A file system whose operations `implement` returns. Operations that differ from the rest are replaced in the result by spreading. */
export function buildFileSystem(
  implement: (name: FileOperationName) => (...args: readonly unknown[]) => Promise<unknown>,
): FileSystem {
  return Object.fromEntries(OPERATION_NAMES.map((name) => [name, implement(name)])) as unknown as FileSystem;
}

const OPERATION_NAMES = Object.keys(FILE_OPERATIONS) as FileOperationName[];

/** A file system that calls `run` for every operation. `perform` does the operation, with its arguments, on the file system it is given. */
export function wrapFileSystem(
  run: (name: FileOperationName, perform: (files: FileSystem) => Promise<unknown>) => Promise<unknown>,
): FileSystem {
  return buildFileSystem(
    (name) =>
      (...args) =>
        run(name, (files) => callOperation(files, name, args)),
  );
}

/** Calls the operation of that name. */
export function callOperation(
  files: FileSystem,
  name: FileOperationName,
  args: readonly unknown[],
): Promise<unknown> {
  return (files[name] as (...args: readonly unknown[]) => Promise<unknown>)(...args);
}

/** A file system that is not available yet. Each operation waits for `get` and fails with its error. */
export function deferFileSystem(get: () => Promise<FileSystem>): FileSystem {
  return wrapFileSystem(async (_name, perform) => perform(await get()));
}

/** The right to use a file system until `release` is called. */
interface FileSystemLease {
  readonly files: FileSystem;
  release(): void;
}

/** Each operation takes a lease before it begins. It releases the lease at its end, or when the file that it opened is closed. */
export function leaseFileSystem(acquire: () => Promise<FileSystemLease>): FileSystem {
  return wrapFileSystem(async (name, perform) => {
    const lease = await acquire();
    const release = once(() => lease.release());
    let isOpen = false;
    try {
      const result = await perform(lease.files);
      switch (FILE_OPERATIONS[name].result) {
        case 'content':
          isOpen = (result as FileContent).whole === undefined;
          return isOpen ? releasingContent(result as FileContent, release) : result;
        case 'file':
          isOpen = true;
          return releasingFile(result as OpenFile, release);
        default:
          return result;
      }
    } finally {
      if (!isOpen) release();
    }
  });
}

/**
 * The same files with a count of open handles. `enter` is called before `open`. It throws to refuse the handle; otherwise it returns
 * the function to call when the handle is closed.
 */
export function countHandles(files: FileSystem, enter: () => () => void): FileSystem {
  return {
    ...files,
    open: async (...args) => {
      const leave = once(enter());
      try {
        return releasingFile(await files.open(...args), leave);
      } catch (error) {
        leave();
        throw error;
      }
    },
  };
}

function releasingContent(content: FileContent, release: () => void): FileContent {
  return {
    size: content.size,
    read: (buffer) => content.read(buffer),
    close: () => content.close().finally(release),
  };
}

function releasingFile(file: OpenFile, release: () => void): OpenFile {
  return {
    part: file.part,
    read: (position, length, into) => file.read(position, length, into),
    write: (position, bytes) => file.write(position, bytes),
    close: () => file.close().finally(release),
    discard: () => file.discard().finally(release),
  };
}
