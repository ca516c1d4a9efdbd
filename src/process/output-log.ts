import { RetainedStream, type RetentionLimits, type StreamSnapshot } from './retained-stream.ts';
import type { StreamName } from './spawn/spawner.ts';

/** How much a reader accepts in one page, in a unit of its own. */
export interface PageBudget {
  readonly size: number;
  /** What a chunk of this many bytes takes of the budget. */
  sizeOf(chunkBytes: number): number;
}

/** A retained chunk of output, or the end of one whose beginning was evicted. */
export interface RetainedChunk {
  readonly seq: number;
  readonly stream: StreamName;
  readonly bytes: Buffer;
  /** When it was read, in Unix time. */
  readonly timeMs: number;
}

/** Retained chunks in sequence order. Their bytes are valid until the next append. */
interface RetainedChunks {
  readonly chunks: RetainedChunk[];
  /** Whether the page ended because of its size: more chunks follow. */
  readonly endsEarly: boolean;
}

/**
 * The numbered events of one process. Exit and close take sequence numbers too. Each stream is retained within limits of its own, so a
 * flood on one stream evicts nothing of another. A sequence number that is missing between two chunks is an evicted chunk or the exit.
 */
export class OutputLog {
  readonly #limits: RetentionLimits;
  readonly #onTerminalEvict: ((bytes: Buffer) => void) | null;
  readonly #streams = new Map<StreamName, RetainedStream>();
  #nextSeq = 1;
  #lastOutputSeq = 0;

  /** `onTerminalEvict` receives the output of a terminal that is no longer retained. See {@link RetainedStream}. */
  constructor(limits: RetentionLimits, onTerminalEvict: ((bytes: Buffer) => void) | null = null) {
    this.#limits = limits;
    this.#onTerminalEvict = onTerminalEvict;
  }

  /** The sequence number of the next event. */
  get nextSeq(): number {
    return this.#nextSeq;
  }

  /** Bytes of all streams, evicted ones included. */
  get totalBytes(): number {
    let bytes = 0;
    for (const stream of this.#streams.values()) bytes += stream.totalBytes;
    return bytes;
  }

  /** See {@link RetainedStream.bytesFrom}. */
  bytesFrom(stream: StreamName, offset: number): Buffer {
    return this.#retained(stream).bytesFrom(offset);
  }

  /** Memory of the output that is kept. */
  get retainedBytes(): number {
    let bytes = 0;
    for (const stream of this.#streams.values()) bytes += stream.retainedBytes;
    return bytes;
  }

  /** Frees the memory that was allocated for further output. */
  shrink(): void {
    for (const stream of this.#streams.values()) stream.shrink();
  }

  /** Copies the bytes and returns their sequence number. `timeMs` is when they were read, in Unix time; by default now. */
  append(stream: StreamName, bytes: Buffer, timeMs?: number): number {
    const seq = this.#nextSeq++;
    this.#lastOutputSeq = seq;
    this.#retained(stream).append(seq, bytes, timeMs);
    return seq;
  }

  /** Takes a sequence number for an event that is not output. */
  mark(): number {
    return this.#nextSeq++;
  }

  /**
   * Returns retained chunks after `afterSeq`. Always returns the first one, whatever its size, and more while the sum stays
   * within `maxBytes` and the budget.
   */
  read(afterSeq: number, maxBytes: number | null, budget: PageBudget | null = null): RetainedChunks {
    const chunks: RetainedChunk[] = [];
    let total = 0;
    let taken = 0;
    for (const { stream, retained, index } of this.#inOrder(afterSeq)) {
      const size = retained.sizeAt(index);
      total += size;
      taken += budget?.sizeOf(size) ?? 0;
      const fits = total <= (maxBytes ?? total) && taken <= (budget?.size ?? taken);
      if (chunks.length > 0 && !fits) return { chunks, endsEarly: true };
      const [seq, timeMs] = [retained.seqAt(index), retained.timeAt(index)];
      chunks.push({ seq, stream, bytes: retained.bytesAt(index), timeMs });
    }
    return { chunks, endsEarly: false };
  }

  /** Whether output came after `afterSeq`, retained or not. */
  hasAfter(afterSeq: number): boolean {
    return this.#lastOutputSeq > afterSeq;
  }

  /** See {@link RetainedStream.bytesBefore}. */
  bytesBefore(seq: number, stream: StreamName): number | null {
    const retained = this.#streams.get(stream);
    return retained === undefined ? 0 : retained.bytesBefore(seq);
  }

  /** See {@link RetainedStream.snapshot}. */
  snapshot(stream: StreamName, maxBytes = Number.POSITIVE_INFINITY): StreamSnapshot {
    return this.#retained(stream).snapshot(maxBytes);
  }

  /** The readable chunks of all streams after a sequence number. */
  *#inOrder(afterSeq: number): Generator<Cursor> {
    const cursors = [...this.#streams].map(
      ([stream, retained]): Cursor => ({ stream, retained, index: retained.firstAfter(afterSeq) }),
    );
    for (;;) {
      let next: Cursor | null = null;
      for (const cursor of cursors) {
        if (cursor.index === cursor.retained.length) continue;
        if (next === null || seqOf(cursor) < seqOf(next)) next = cursor;
      }
      if (next === null) return;
      yield next;
      next.index++;
    }
  }

  #retained(stream: StreamName): RetainedStream {
    let retained = this.#streams.get(stream);
    if (retained === undefined) {
      retained = new RetainedStream(this.#limits, stream === 'pty' ? this.#onTerminalEvict : null);
      this.#streams.set(stream, retained);
    }
    return retained;
  }
}

interface Cursor {
  readonly stream: StreamName;
  readonly retained: RetainedStream;
  index: number;
}

function seqOf({ retained, index }: Cursor): number {
  return retained.seqAt(index);
}
