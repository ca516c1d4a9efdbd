import type { Semaphore } from '../base/semaphore.ts';
import { FILE_OPERATIONS, type FileContent, type FileSystem, type OpenFile } from './file-system.ts';
import { wrapFileSystem } from './file-system-wrappers.ts';

/**
 * Semaphores for operations: every operation takes a slot, and operations with several system calls at a time also take a tree
 * slot.
 */
interface FileSemaphores {
  readonly slots: Semaphore;
  readonly trees: Semaphore;
}

/**
 * The same files with a limit on concurrent operations. Each operation may hang on a dead mount and occupy a thread of the shared
 * pool, so that one client must not occupy all threads. `signal` rejects the operations that still wait for a slot.
 */
export function limitFileSystem(
  files: FileSystem,
  semaphores: FileSemaphores,
  signal: AbortSignal,
): FileSystem {
  const { slots, trees } = semaphores;
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
 * Only the first read takes a slot. Later reads belong to a response that is being sent, one at a time. They need no slot because
 * other operations may be queued behind that response.
 */
function limitContent(content: FileContent, inSlot: InSlot): FileContent {
  if (content.whole !== undefined) return content;
  /** The read in progress or waiting for its slot. It never rejects. */
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
    part: file.part,
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
        // The wait for a slot was aborted, so no later call closes the file.
        if (!begun) await file.discard();
      }
    },
    // Takes no slot: it runs at shutdown, when the semaphore may be blocked.
    discard: () => file.discard(),
  };
}
