import type { FileContent, FileSystem, OpenFile } from '../../files/file-system.ts';
import type { PolicyFiles } from '../sandbox.ts';
import type { HelperFileSystem } from './wire/helper-file-system.ts';

/** A helper that somebody has entered. */
export interface EnteredHelper {
  readonly files: HelperFileSystem;
  leave(): void;
}

/** Files through a helper that each operation enters before it begins, and leaves at its end or when the file that it opened is closed. */
export function filesThrough(enter: () => Promise<EnteredHelper>): PolicyFiles {
  const inside = async <T>(operate: (files: HelperFileSystem) => Promise<T>): Promise<T> => {
    const helper = await enter();
    try {
      return await operate(helper.files);
    } finally {
      helper.leave();
    }
  };
  const opening = async <T>(
    open: (files: HelperFileSystem) => Promise<T>,
    keep: (opened: T, leave: () => void) => T,
  ): Promise<T> => {
    const helper = await enter();
    try {
      return keep(await open(helper.files), () => helper.leave());
    } catch (error) {
      helper.leave();
      throw error;
    }
  };
  const fileSystem: FileSystem = {
    readFile: (...args) => opening((files) => files.readFile(...args), heldContent),
    writeFile: (...args) => inside((files) => files.writeFile(...args)),
    createDirectory: (...args) => inside((files) => files.createDirectory(...args)),
    getMetadata: (...args) => inside((files) => files.getMetadata(...args)),
    canonicalize: (...args) => inside((files) => files.canonicalize(...args)),
    readDirectory: (...args) => inside((files) => files.readDirectory(...args)),
    walk: (...args) => inside((files) => files.walk(...args)),
    remove: (...args) => inside((files) => files.remove(...args)),
    copy: (...args) => inside((files) => files.copy(...args)),
    rename: (...args) => inside((files) => files.rename(...args)),
    open: (...args) => opening((files) => files.open(...args), heldFile),
  };
  return { fileSystem, search: (...args) => inside((files) => files.search(...args)) };
}

function heldContent(content: FileContent, leave: () => void): FileContent {
  const left = once(leave);
  return {
    size: content.size,
    read: (buffer) => content.read(buffer),
    close: () => content.close().finally(left),
  };
}

function heldFile(file: OpenFile, leave: () => void): OpenFile {
  const left = once(leave);
  return {
    read: (...args) => file.read(...args),
    write: (...args) => file.write(...args),
    close: () => file.close().finally(left),
    discard: () => file.discard().finally(left),
  };
}

function once(action: () => void): () => void {
  let isDone = false;
  return () => {
    if (!isDone) action();
    isDone = true;
  };
}
