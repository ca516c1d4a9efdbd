import { closeSync, writeSync } from 'node:fs';
import { once } from '../../base/once.ts';
import { REMOVAL_SLOT_BYTES } from '../limits.ts';

/**
 * Directory entries that the watchdog removes if this process dies. The list is a memory file that the watchdog inherits: an entry
 * is in it as soon as `add` returns, and the watchdog reads it only after the death. Each entry has a slot of one page, which the
 * kernel writes as a whole. A slot holds a letter for the kind, the path and a NUL, which no path contains; an unused slot is zero.
 */
export class RemovalList {
  readonly #createFile: () => number;
  readonly #unused: number[] = [];
  #slots = 0;
  #fd: number | null = null;
  #closed = false;

  /** `createFile` opens an empty memory file. */
  constructor(createFile: () => number) {
    this.#createFile = createFile;
  }

  /** The memory file, created on first use. Throws when that fails. */
  get fd(): number {
    this.#fd ??= this.#createFile();
    return this.#fd;
  }

  /** Adds an absolute path, one byte per character. The returned function takes it out. Throws for a path that is too long. */
  add(path: string, kind: 'directory' | 'file'): () => void {
    const record = Buffer.from(`${kind === 'directory' ? 'd' : 'f'}${path}\0`, 'latin1');
    if (record.length > REMOVAL_SLOT_BYTES) {
      throw Object.assign(new Error('the path is too long'), { code: 'ENAMETOOLONG' });
    }
    const slot = this.#unused.pop() ?? this.#slots++;
    const takeOut = once(() => {
      this.#write(slot, Buffer.alloc(record.length));
      this.#unused.push(slot);
    });
    try {
      this.#write(slot, record);
      return takeOut;
    } catch (error) {
      takeOut();
      throw error;
    }
  }

  /** Must be called when there is no watchdog any more. Later calls change nothing. */
  close(): void {
    this.#closed = true;
    if (this.#fd !== null) closeSync(this.#fd);
    this.#fd = null;
  }

  #write(slot: number, bytes: Uint8Array): void {
    if (!this.#closed) writeSync(this.fd, bytes, 0, bytes.length, slot * REMOVAL_SLOT_BYTES);
  }
}
