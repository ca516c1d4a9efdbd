import { SMALL_WRITE_BYTES, WRITE_SLOT_PATH_BYTES } from '../limits.ts';
import { type NativePath, nativePathOfBytes } from '../native-path.ts';

/** A small file to write. The bytes may be overwritten when it is done. */
export interface WriteJob {
  readonly path: NativePath;
  readonly bytes: Uint8Array;
}

/**
 * Memory that the event loop shares with a file thread. The event loop places a write there and, if it finishes within the wait
 * limit, blocks until it is done: a message in each direction costs more than the write. The file thread sleeps on this memory,
 * also until a message arrives, and has one job at a time.
 */
export class SharedWriteSlot {
  readonly memory: SharedArrayBuffer;
  readonly #fields: Int32Array;
  readonly #bytes: Buffer;

  constructor(memory = new SharedArrayBuffer(FIELDS_BYTES + WRITE_SLOT_PATH_BYTES + SMALL_WRITE_BYTES)) {
    this.memory = memory;
    this.#fields = new Int32Array(memory, 0, FIELDS);
    this.#bytes = Buffer.from(memory, FIELDS_BYTES);
  }

  /** Whether the job fits. Every small write with a valid path does. */
  static fits({ path, bytes }: WriteJob): boolean {
    return path.length <= WRITE_SLOT_PATH_BYTES && bytes.length <= SMALL_WRITE_BYTES;
  }

  /** Wakes the thread to read a message. */
  notifyMessage(): void {
    this.#assign(Task.message);
  }

  /**
   * Lets the thread write a file. The caller blocks up to `waitMs`. Returns true if the write finished in that time. Otherwise the
   * thread reports the outcome by a message.
   */
  write({ path, bytes }: WriteJob, waitMs: number): boolean {
    this.#fields[Field.pathLength] = this.#bytes.write(path, 'latin1');
    this.#fields[Field.length] = bytes.length;
    this.#bytes.set(bytes, path.length);
    Atomics.store(this.#fields, Field.answer, waitMs > 0 ? Answer.awaited : Answer.byMessage);
    this.#assign(Task.write);
    if (waitMs === 0) return false;
    Atomics.wait(this.#fields, Field.answer, Answer.awaited, waitMs);
    return (
      Atomics.compareExchange(this.#fields, Field.answer, Answer.awaited, Answer.byMessage) === Answer.written
    );
  }

  /** Sleeps until there is a write or a message. */
  next(): WriteJob | 'message' {
    Atomics.wait(this.#fields, Field.task, Task.none);
    if (Atomics.exchange(this.#fields, Field.task, Task.none) === Task.message) return 'message';
    const start = this.#fields[Field.pathLength]!;
    return {
      path: nativePathOfBytes(this.#bytes.toString('latin1', 0, start)),
      bytes: this.#bytes.subarray(start, start + this.#fields[Field.length]!),
    };
  }

  /**
   * Reports to the waiting caller that the file was written, or that a message follows. Returns false if the caller no longer
   * waits.
   */
  complete(outcome: 'written' | 'other'): boolean {
    const answer = outcome === 'written' ? Answer.written : Answer.byMessage;
    const before = Atomics.compareExchange(this.#fields, Field.answer, Answer.awaited, answer);
    Atomics.notify(this.#fields, Field.answer);
    return before === Answer.awaited;
  }

  #assign(task: number): void {
    Atomics.store(this.#fields, Field.task, task);
    Atomics.notify(this.#fields, Field.task);
  }
}

const Field = { task: 0, answer: 1, pathLength: 2, length: 3 } as const;
const FIELDS = 4;
const FIELDS_BYTES = FIELDS * Int32Array.BYTES_PER_ELEMENT;

const Task = { none: 0, message: 1, write: 2 } as const;
const Answer = { byMessage: 0, awaited: 1, written: 2 } as const;
