import type { Semaphore } from '../base/semaphore.ts';
import { FILE_OPERATIONS, type FileContent, type FileSystem, type OpenFile } from './file-system.ts';
import { wrapFileSystem } from './file-system-wrappers.ts';

/** Places for operations: one for each, and one more for each that goes through a tree with several calls at once. */
export interface FileSemaphores {
  readonly slots: Semaphore;
  readonly trees: Semaphore;
}

/**
 * The same files with a bound on the operations that are with the system at once. Each may hang on a dead mount and hold a
 * thread; who shares the threads with others must not take all of them. `signal` ends the wait of those that have not begun.
 */
export function limitFileSystem(files: FileSystem, places: FileSemaphores, signal: AbortSignal): FileSystem {
  const { slots, trees } = places;
  const inSlot = async <T>(work: (leave: () => void) => Promise<T>): Promise<T> => {
    await slots.acquire(signal);
    let held = true;
    const leave = () => {
      if (held) slots.release();
      held = false;
    };
    try {
      return await work(leave);
    } finally {
      leave();
    }
  };
  const inTree = async <T>(work: () => Promise<T>): Promise<T> => {
    await trees.acquire(signal);
    try {
      return await inSlot(work);
    } finally {
      trees.release();
    }
  };
  const limited = wrapFileSystem((name, perform) =>
    FILE_OPERATIONS[name].scope === 'tree' ? inTree(() => perform(files)) : inSlot(() => perform(files)),
  );
  return {
    ...limited,
    readFile: async (...args) => limitContent(await limited.readFile(...args), inSlot),
    writeFile: (path, bytes, options, waiting) =>
      inSlot((leave) => {
        const onWait = () => {
          leave();
          waiting.onWait();
        };
        return files.writeFile(path, bytes, options, { signal: waiting.signal, onWait });
      }),
    open: async (...args) => limitFile(await limited.open(...args), inSlot),
  };
}

type InSlot = <T>(work: () => Promise<T>) => Promise<T>;

/**
 * The first read takes a place like anything else that brings an answer. Those after it belong to an answer that is being sent, one
 * at a time, and need none: everything else may be waiting behind that answer.
 */
function limitContent(content: FileContent, inSlot: InSlot): FileContent {
  if (content.whole !== undefined) return content;
  /** What is under way or waits for its place; it never rejects. */
  let reading: Promise<unknown> | null = null;
  return {
    size: content.size,
    read: (buffer) => {
      const read = reading === null ? inSlot(() => content.read(buffer)) : content.read(buffer);
      reading = read.catch(() => {});
      return read;
    },
    close: async () => {
      await reading;
      await content.close();
    },
  };
}

function limitFile(file: OpenFile, inSlot: InSlot): OpenFile {
  return {
    read: (position, length, into) => inSlot(() => file.read(position, length, into)),
    write: (position, bytes) => inSlot(() => file.write(position, bytes)),
    close: async () => {
      let begun = false;
      try {
        await inSlot(() => {
          begun = true;
          return file.close();
        });
      } finally {
        // The wait was ended: nobody comes back to close it.
        if (!begun) await file.discard();
      }
    },
    // It is how things end, when nobody waits in line any more.
    discard: () => file.discard(),
  };
}
