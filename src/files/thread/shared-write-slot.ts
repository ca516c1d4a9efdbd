import { SMALL_WRITE_BYTES, WRITE_SLOT_PATH_BYTES } from '../limits.ts';
import { type NativePath, nativePathOfBytes } from '../native-path.ts';

/** A small file that is to be written. The bytes may be overwritten when it is done. */
export interface WriteJob {
  readonly path: NativePath;
  readonly bytes: Uint8Array;
}

/**
 * Memory that the server's thread shares with a thread that works on files. A write is laid down there and, where that takes no
 * longer than a moment, waited for: a message each way costs more than the write. The file thread sleeps here, also until a message
 * comes, and has one thing to do at a time.
 */
export class SharedWriteSlot {
  readonly memory: SharedArrayBuffer;
  readonly #words: Int32Array;
  readonly #bytes: Buffer;

  constructor(memory = new SharedArrayBuffer(WORDS_BYTES + WRITE_SLOT_PATH_BYTES + SMALL_WRITE_BYTES)) {
    this.memory = memory;
    this.#words = new Int32Array(memory, 0, WORDS);
    this.#bytes = Buffer.from(memory, WORDS_BYTES);
  }

  /** Whether there is room for it; there is for all that is small and has a path that the system takes. */
  static fits({ path, bytes }: WriteJob): boolean {
    return path.length <= WRITE_SLOT_PATH_BYTES && bytes.length <= SMALL_WRITE_BYTES;
  }

  /** Says that there is a message. */
  ring(): void {
    this.#give(Task.message);
  }

  /**
   * Has a file written. True when that was done within so many milliseconds, in which the caller does nothing else; it sleeps, or
   * lets others run again and again. Otherwise a message says how it ended.
   */
  write({ path, bytes }: WriteJob, waitMs: number, letOthersRun: (() => void) | null = null): boolean {
    this.#words[Word.pathLength] = this.#bytes.write(path, 'latin1');
    this.#words[Word.length] = bytes.length;
    this.#bytes.set(bytes, path.length);
    Atomics.store(this.#words, Word.answer, waitMs > 0 ? Answer.awaited : Answer.byMessage);
    this.#give(Task.write);
    if (waitMs === 0) return false;
    if (letOthersRun === null) Atomics.wait(this.#words, Word.answer, Answer.awaited, waitMs);
    else this.#watch(waitMs, letOthersRun);
    return (
      Atomics.compareExchange(this.#words, Word.answer, Answer.awaited, Answer.byMessage) === Answer.written
    );
  }

  /** Sleeps until there is something to do: a write, or a message to be read. */
  next(): WriteJob | 'message' {
    Atomics.wait(this.#words, Word.task, Task.none);
    if (Atomics.exchange(this.#words, Word.task, Task.none) === Task.message) return 'message';
    const start = this.#words[Word.pathLength]!;
    return {
      path: nativePathOfBytes(this.#bytes.toString('latin1', 0, start)),
      bytes: this.#bytes.subarray(start, start + this.#words[Word.length]!),
    };
  }

  /** Tells whoever waits that the file was written, or that a message will say what happened. False when nobody waits. */
  tell(outcome: 'written' | 'other'): boolean {
    const answer = outcome === 'written' ? Answer.written : Answer.byMessage;
    const before = Atomics.compareExchange(this.#words, Word.answer, Answer.awaited, answer);
    Atomics.notify(this.#words, Word.answer);
    return before === Answer.awaited;
  }

  #watch(waitMs: number, letOthersRun: () => void): void {
    const endMs = performance.now() + waitMs;
    do letOthersRun();
    while (Atomics.load(this.#words, Word.answer) === Answer.awaited && performance.now() < endMs);
  }

  #give(task: number): void {
    Atomics.store(this.#words, Word.task, task);
    Atomics.notify(this.#words, Word.task);
  }
}

const Word = { task: 0, answer: 1, pathLength: 2, length: 3 } as const;
const WORDS = 4;
const WORDS_BYTES = WORDS * Int32Array.BYTES_PER_ELEMENT;

const Task = { none: 0, message: 1, write: 2 } as const;
const Answer = { byMessage: 0, awaited: 1, written: 2 } as const;
