import { createHash } from 'node:crypto';
import { ProcessError } from './errors.ts';
import {
  MAX_RECENT_WRITE_IDS,
  STDIN_ACCEPTED_CHUNKS,
  STDIN_QUEUE_MAX_BYTES,
  STDIN_QUEUE_MAX_CHUNKS,
} from './limits.ts';
import type { InputSink } from './spawn/spawner.ts';

/** The result of a write. */
export type WriteStatus = 'accepted' | 'stdinClosed';

/**
 * Queues bytes for a child's stdin in call order. A write is acknowledged once few enough others wait before it. That limits a
 * caller that waits for acks to the child's pace. A caller that does not wait is rejected when the queue is full.
 */
export class StdinQueue {
  readonly #sink: InputSink;
  readonly #isTerminal: boolean;
  readonly #writeIds = new RecentIds(MAX_RECENT_WRITE_IDS);
  #queuedChunks = 0;
  #queuedBytes = 0;
  #ended = false;
  #gone = false;
  #closed = false;
  #withheld: (() => void)[] = [];
  /** Called with the bytes of each write that is queued. */
  onQueued: ((bytes: Uint8Array) => void) | null = null;

  constructor(sink: InputSink, isTerminal: boolean) {
    this.#sink = sink;
    this.#isTerminal = isTerminal;
  }

  /**
   * Queues the bytes before it returns. The result or the returned promise is the ack. A write id that was accepted before is
   * acknowledged again and not written a second time.
   */
  write(
    bytes: Uint8Array,
    writeId: string | null,
    onWithheld: () => void,
  ): Promise<WriteStatus> | WriteStatus {
    if (writeId !== null && this.#writeIds.has(writeId)) return 'accepted';
    if (this.#gone) throw new ProcessError('stdinGone', 'the process was terminated; its stdin is gone');
    if (this.#ended) return 'stdinClosed';
    if (this.#closed) return 'accepted';
    if (bytes.length > 0) {
      this.#enqueue(bytes);
      this.onQueued?.(bytes);
    }
    if (writeId !== null) this.#writeIds.add(writeId);
    if (bytes.length === 0 || this.#queuedChunks <= STDIN_ACCEPTED_CHUNKS) return 'accepted';
    onWithheld();
    return new Promise((resolve) => this.#withheld.push(() => resolve('accepted')));
  }

  /** Closes stdin after the queued writes; a terminal gets its end-of-file character instead. False when it was already closed. */
  end(): boolean {
    if (this.#ended || this.#gone) return false;
    if (this.#isTerminal) {
      this.#enqueue(END_OF_TRANSMISSION);
    } else {
      this.#ended = true;
      this.#sink.end();
    }
    return true;
  }

  /** Drops what is queued and rejects every later write. */
  abandon(): void {
    this.#gone = true;
    this.#release();
  }

  /**
   * Frees the descriptor of a program that has ended. Later writes are accepted and dropped, unless stdin was ended or abandoned before:
   * then only the writes that were accepted before are acknowledged again. Only for them write ids are kept.
   */
  close(): void {
    this.#closed = true;
    if (!this.#ended && !this.#gone) this.#writeIds.clear();
    this.#release();
  }

  /** Memory of the write ids. */
  get retainedBytes(): number {
    return this.#writeIds.retainedBytes;
  }

  #enqueue(bytes: Uint8Array): void {
    if (
      this.#queuedChunks >= STDIN_QUEUE_MAX_CHUNKS ||
      this.#queuedBytes + bytes.length > STDIN_QUEUE_MAX_BYTES
    ) {
      throw new ProcessError(
        'stdinFull',
        `stdin is full: ${this.#queuedBytes} bytes wait for the program to read; wait for answers before writing more`,
      );
    }
    this.#queuedChunks++;
    this.#queuedBytes += bytes.length;
    // A write fails when the program no longer reads its stdin. The program may do that, and the caller sees its exit.
    this.#sink.write(bytes, () => this.#written(bytes.length));
  }

  #written(bytes: number): void {
    this.#queuedChunks--;
    this.#queuedBytes -= bytes;
    if (this.#queuedChunks <= STDIN_ACCEPTED_CHUNKS) this.#withheld.shift()?.();
    if (this.#queuedChunks === 0) this.#releaseWithheld();
  }

  #release(): void {
    this.#sink.destroy();
    this.#releaseWithheld();
  }

  #releaseWithheld(): void {
    for (const acknowledge of this.#withheld.splice(0)) acknowledge();
  }
}

const END_OF_TRANSMISSION = Uint8Array.of(4);

/** A set of bounded size that evicts its oldest members. Long ids are stored as digests. */
class RecentIds {
  readonly #capacity: number;
  readonly #ids = new Set<string>();

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  has(id: string): boolean {
    return this.#ids.has(shortened(id));
  }

  add(id: string): void {
    this.#ids.add(shortened(id));
    if (this.#ids.size <= this.#capacity) return;
    const oldest = this.#ids.values().next().value;
    if (oldest !== undefined) this.#ids.delete(oldest);
  }

  clear(): void {
    this.#ids.clear();
  }

  get retainedBytes(): number {
    let bytes = 0;
    for (const id of this.#ids) bytes += Buffer.byteLength(id) + BYTES_PER_ID;
    return bytes;
  }
}

/** What a string and its entry in a set take besides the characters: about 50 bytes in Node 22. */
const BYTES_PER_ID = 56;

function shortened(id: string): string {
  return id.length <= LONGEST_PLAIN_ID ? id : createHash('sha512').update(id).digest('hex');
}

/** One less than the length of a hex digest, so that no id can equal the digest of another. */
const LONGEST_PLAIN_ID = 127;
