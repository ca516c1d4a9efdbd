import { Errno, systemError } from '../../../files/errors.ts';
import type { FileContent, OpenFile } from '../../../files/file-system.ts';
import { MAX_HELPER_FILES } from '../limits.ts';

/** The open files of a helper, by the numbers that it assigned. */
export class OpenFileTable {
  readonly #files = new Map<number, FileContent | OpenFile>();
  #last = 0;
  #opening = 0;

  /** Calls `open` and assigns a number to the file. Throws EMFILE when too many are open. */
  async add<T extends FileContent | OpenFile>(open: () => Promise<T>): Promise<{ file: number; opened: T }> {
    if (this.#files.size + this.#opening >= MAX_HELPER_FILES) throw systemError(Errno.EMFILE);
    this.#opening++;
    try {
      const opened = await open();
      const file = ++this.#last;
      this.#files.set(file, opened);
      return { file, opened };
    } finally {
      this.#opening--;
    }
  }

  content(file: number): FileContent {
    return this.#get(file) as FileContent;
  }

  file(file: number): OpenFile {
    return this.#get(file) as OpenFile;
  }

  async close(file: number): Promise<void> {
    const opened = this.#get(file);
    this.#files.delete(file);
    await opened.close();
  }

  async discard(file: number): Promise<void> {
    const opened = this.#get(file);
    this.#files.delete(file);
    await ('discard' in opened ? opened.discard() : opened.close());
  }

  /** Ignores errors: no client waits for them. */
  async discardAll(): Promise<void> {
    await Promise.allSettled([...this.#files.keys()].map((file) => this.discard(file)));
  }

  #get(file: number): FileContent | OpenFile {
    const opened = this.#files.get(file);
    if (opened === undefined) throw systemError(Errno.EBADF);
    return opened;
  }
}
