import type { StreamName } from './spawn/spawner.ts';

/** How much of a process's output is kept. */
export interface RetentionLimits {
  readonly maxBytes: number;
  readonly maxChunks: number;
  /** First bytes of each stream, which are kept whatever follows. */
  readonly headBytes: number;
  /** Largest chunk that readers accept; when absent only the retention limits the size. */
  readonly maxChunkBytes?: number;
}

/** How much a reader accepts in one page, in a unit of its own. */
export interface PageBudget {
  readonly size: number;
  /** What a chunk of this many bytes takes of the budget. */
  sizeOf(chunkBytes: number): number;
}

/** A retained chunk of output. */
export interface RetainedChunk {
  readonly seq: number;
  readonly stream: StreamName;
  readonly bytes: Buffer;
}

/** The beginning and the end of one stream. `omittedBytes` are missing between them. */
export interface StreamSnapshot {
  readonly head: Buffer;
  readonly tail: Buffer;
  readonly omittedBytes: number;
}

/**
 * The numbered events of one process. Output is kept in a ring buffer that grows up to the limit; then new chunks evict the
 * oldest whole chunks. Exit and close take sequence numbers too, so that a reader can distinguish a gap from silence.
 */
export class OutputLog {
  readonly #limits: RetentionLimits;
  readonly #heads = new Map<StreamName, StreamHead>();
  #ring: Buffer = Buffer.alloc(0);
  #writeAt = 0;
  #bytes = 0;
  #chunks: ChunkQueue = new ChunkQueue();
  #nextSeq = 1;

  constructor(limits: RetentionLimits) {
    this.#limits = limits;
  }

  /** The sequence number of the next event. */
  get nextSeq(): number {
    return this.#nextSeq;
  }

  /** Copies the bytes and returns their sequence number. */
  append(stream: StreamName, bytes: Buffer): number {
    const seq = this.#nextSeq++;
    this.#headOf(stream).append(bytes, this.#limits.headBytes);
    this.#evictFor(bytes.length);
    if (bytes.length <= this.#limits.maxBytes) this.#store(seq, stream, bytes);
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
  read(afterSeq: number, maxBytes: number | null, budget: PageBudget | null = null): RetainedChunk[] {
    const found: RetainedChunk[] = [];
    let total = 0;
    let taken = 0;
    for (let index = this.#chunks.firstAfter(afterSeq); index < this.#chunks.length; index++) {
      const chunk = this.#chunks.at(index);
      if (maxBytes !== null && found.length > 0 && total + chunk.length > maxBytes) break;
      if (budget !== null) taken += budget.sizeOf(chunk.length);
      if (budget !== null && found.length > 0 && taken > budget.size) break;
      total += chunk.length;
      found.push({ seq: chunk.seq, stream: chunk.stream, bytes: this.#bytesOf(chunk) });
      if (maxBytes !== null && total >= maxBytes) break;
    }
    return found;
  }

  /** Whether a retained chunk comes after `afterSeq`. */
  hasAfter(afterSeq: number): boolean {
    return this.#chunks.firstAfter(afterSeq) < this.#chunks.length;
  }

  /** Head and tail of one stream, without overlap and together at most `maxBytes`. A head that is too long is cut to half of that. */
  snapshot(stream: StreamName, maxBytes = Number.POSITIVE_INFINITY): StreamSnapshot {
    const { bytes, totalBytes } = this.#headOf(stream);
    let retainedBytes = 0;
    for (let index = 0; index < this.#chunks.length; index++) {
      const chunk = this.#chunks.at(index);
      if (chunk.stream === stream) retainedBytes += chunk.length;
    }
    const afterHead = Math.min(retainedBytes, totalBytes - bytes.length);
    const headBytes = Math.min(bytes.length, Math.max(maxBytes - afterHead, Math.floor(maxBytes / 2)));
    const tailBytes = Math.min(afterHead, maxBytes - headBytes);
    return {
      head: bytes.subarray(0, headBytes),
      tail: this.#lastBytes(stream, tailBytes),
      omittedBytes: totalBytes - headBytes - tailBytes,
    };
  }

  #lastBytes(stream: StreamName, count: number): Buffer {
    const parts: Buffer[] = [];
    let missing = count;
    for (let index = this.#chunks.length - 1; missing > 0; index--) {
      const chunk = this.#chunks.at(index);
      if (chunk.stream !== stream) continue;
      const part = this.#bytesOf(chunk).subarray(-missing);
      parts.push(part);
      missing -= part.length;
    }
    return Buffer.concat(parts.reverse(), count);
  }

  #headOf(stream: StreamName): StreamHead {
    let head = this.#heads.get(stream);
    if (head === undefined) {
      head = new StreamHead();
      this.#heads.set(stream, head);
    }
    return head;
  }

  #evictFor(incoming: number): void {
    const { maxBytes, maxChunks } = this.#limits;
    while (
      this.#chunks.length > 0 &&
      (this.#bytes + incoming > maxBytes || this.#chunks.length >= maxChunks)
    ) {
      this.#bytes -= this.#chunks.shift().length;
    }
  }

  #store(seq: number, stream: StreamName, bytes: Buffer): void {
    this.#grow(this.#bytes + bytes.length);
    const start = this.#writeAt;
    const untilEnd = this.#ring.length - start;
    bytes.copy(this.#ring, start, 0, untilEnd);
    if (bytes.length > untilEnd) bytes.copy(this.#ring, 0, untilEnd);
    this.#writeAt = (start + bytes.length) % this.#ring.length;
    this.#bytes += bytes.length;
    this.#chunks.push({ seq, stream, start, length: bytes.length });
  }

  /** Doubles the ring buffer until `needed` fits, and moves its content to the front. */
  #grow(needed: number): void {
    if (needed <= this.#ring.length) return;
    let size = Math.max(this.#ring.length, INITIAL_RING_BYTES);
    while (size < needed) size *= 2;
    const grown = Buffer.allocUnsafeSlow(Math.min(size, Math.max(this.#limits.maxBytes, needed)));
    let at = 0;
    for (let index = 0; index < this.#chunks.length; index++) {
      const chunk = this.#chunks.at(index);
      const bytes = this.#bytesOf(chunk);
      bytes.copy(grown, at);
      chunk.start = at;
      at += bytes.length;
    }
    this.#ring = grown;
    this.#writeAt = at % grown.length;
  }

  /** A view when the chunk is contiguous, a copy when it wraps around. Valid until the next append. */
  #bytesOf(chunk: ChunkEntry): Buffer {
    const end = chunk.start + chunk.length;
    if (end <= this.#ring.length) return this.#ring.subarray(chunk.start, end);
    return Buffer.concat([this.#ring.subarray(chunk.start), this.#ring.subarray(0, end - this.#ring.length)]);
  }
}

const INITIAL_RING_BYTES = 4096;

interface ChunkEntry {
  readonly seq: number;
  readonly stream: StreamName;
  start: number;
  readonly length: number;
}

/** A queue of chunk entries in sequence order, cheap to shift and to search. */
class ChunkQueue {
  #entries: ChunkEntry[] = [];
  #head = 0;

  get length(): number {
    return this.#entries.length - this.#head;
  }

  push(entry: ChunkEntry): void {
    this.#entries.push(entry);
  }

  shift(): ChunkEntry {
    const entry = this.#entries[this.#head++]!;
    if (this.#head > 1024 && this.#head * 2 > this.#entries.length) {
      this.#entries = this.#entries.slice(this.#head);
      this.#head = 0;
    }
    return entry;
  }

  at(index: number): ChunkEntry {
    return this.#entries[this.#head + index]!;
  }

  /** Index of the first entry with a sequence number greater than `afterSeq`. */
  firstAfter(afterSeq: number): number {
    let low = 0;
    let high = this.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.at(middle).seq > afterSeq) high = middle;
      else low = middle + 1;
    }
    return low;
  }
}

/** The first bytes of one stream and its total length. */
class StreamHead {
  #buffer = Buffer.alloc(0);
  #length = 0;
  totalBytes = 0;

  append(bytes: Buffer, limit: number): void {
    this.totalBytes += bytes.length;
    const free = limit - this.#length;
    if (free <= 0) return;
    const part = bytes.subarray(0, free);
    this.#reserve(this.#length + part.length, limit);
    part.copy(this.#buffer, this.#length);
    this.#length += part.length;
  }

  get bytes(): Buffer {
    return this.#buffer.subarray(0, this.#length);
  }

  #reserve(needed: number, limit: number): void {
    if (needed <= this.#buffer.length) return;
    const grown = Buffer.allocUnsafeSlow(Math.min(limit, Math.max(needed, this.#buffer.length * 2)));
    this.#buffer.copy(grown);
    this.#buffer = grown;
  }
}
