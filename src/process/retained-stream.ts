/** How much of each output stream of a process is kept. */
export interface RetentionLimits {
  /** First bytes of a stream, which are kept whatever follows. */
  readonly headBytes: number;
  /** Last bytes of a stream behind its head. */
  readonly tailBytes: number;
  /** Chunks of a stream that can be read by sequence number. */
  readonly maxChunks: number;
  /** Largest chunk that readers accept; when absent only the size of one read limits it. */
  readonly maxChunkBytes?: number;
}

/** The beginning and the end of one stream. `omittedBytes` are missing between them. Valid until the next append. */
export interface StreamSnapshot {
  readonly head: Buffer;
  readonly tail: Buffer;
  readonly omittedBytes: number;
}

/**
 * The head and the tail of one stream, and which chunk each byte came in. The tail is a ring buffer that grows up to its limit; then
 * new bytes evict the oldest ones, also from the middle of a chunk. While nothing is evicted all chunks are readable; then only those
 * in the tail. All offsets count from the beginning of the stream.
 */
export class RetainedStream {
  readonly #limits: RetentionLimits;
  #head: Buffer = NO_BYTES;
  #ring: Buffer = NO_BYTES;
  #totalBytes = 0;
  /** Where the tail begins. */
  #tailFrom: number;
  /** Where the first readable chunk begins: at its first byte, or behind its evicted bytes. */
  #readFrom = 0;
  /** The chunks of which at least one byte is readable. */
  readonly #chunks: ChunkTable;
  /** The last chunk of which no byte is readable: its sequence number, 0 when there is none, and its end. */
  #evictedSeq = 0;
  #evictedEnd = 0;
  readonly #onEvict: ((bytes: Buffer) => void) | null;
  /** How much `#onEvict` has received. */
  #reportedBytes = 0;

  /** `onEvict` receives the bytes that leave the stream, head included, in order. They are valid only during the call. */
  constructor(limits: RetentionLimits, onEvict: ((bytes: Buffer) => void) | null = null) {
    this.#limits = limits;
    this.#onEvict = onEvict;
    this.#tailFrom = limits.headBytes;
    this.#chunks = new ChunkTable(limits.maxChunks);
  }

  /** Copies the bytes. `timeMs` is when they were read, in Unix time. */
  append(seq: number, bytes: Buffer, timeMs = Date.now()): void {
    const { headBytes, tailBytes, maxChunks } = this.#limits;
    const forHead = Math.max(0, Math.min(bytes.length, headBytes - this.#totalBytes));
    if (forHead > 0) this.#appendToHead(bytes.subarray(0, forHead));
    this.#totalBytes += bytes.length;
    const tailFrom = this.#totalBytes - tailBytes;
    if (tailFrom > this.#tailFrom) {
      if (this.#onEvict !== null) this.#reportEvicted(tailFrom, bytes, this.#onEvict);
      this.#tailFrom = tailFrom;
      this.#evictChunks(tailFrom);
    }
    if (forHead < bytes.length) this.#appendToTail(bytes.subarray(forHead));
    if (this.#chunks.length === maxChunks) this.#evictChunks(this.#chunks.endAt(0));
    if (this.#totalBytes > this.#readFrom) this.#chunks.push(seq, this.#totalBytes, timeMs);
    else [this.#evictedSeq, this.#evictedEnd] = [seq, this.#totalBytes];
  }

  /** All bytes of the stream, evicted ones included. */
  get totalBytes(): number {
    return this.#totalBytes;
  }

  /** A copy of the bytes from an offset on, which were not evicted. */
  bytesFrom(offset: number): Buffer {
    return Buffer.from(this.#bytes(offset, this.#totalBytes));
  }

  /** Bytes of the head and the tail, and 24 for each chunk. */
  get retainedBytes(): number {
    return this.#retainedHead + this.#retainedTail + BYTES_PER_CHUNK * this.#chunks.length;
  }

  /** Frees the memory that was allocated for further output. */
  shrink(): void {
    if (this.#head.length > this.#retainedHead) this.#head = copyOf(this.#head, this.#retainedHead);
    const tailBytes = Math.max(0, this.#totalBytes - this.#tailFrom);
    if (this.#ring.length > tailBytes) this.#resizeRing(tailBytes, this.#totalBytes);
    this.#chunks.shrink();
  }

  /** Number of readable chunks. */
  get length(): number {
    return this.#chunks.length;
  }

  seqAt(index: number): number {
    return this.#chunks.seqAt(index);
  }

  timeAt(index: number): number {
    return this.#chunks.timeAt(index);
  }

  /**
   * The index of the first readable chunk after a sequence number. A chunk without its first bytes counts only for a reader who also
   * misses the chunk before it: others would take it for the continuation of what they have.
   */
  firstAfter(afterSeq: number): number {
    const first = this.#chunks.firstAfter(afterSeq);
    const isCut = this.#readFrom > this.#evictedEnd;
    return first === 0 && isCut && this.#evictedSeq <= afterSeq ? 1 : first;
  }

  /** The bytes of a chunk that are left. Valid until the next append. */
  bytesAt(index: number): Buffer {
    return this.#bytes(this.#startOf(index), this.#chunks.endAt(index));
  }

  sizeAt(index: number): number {
    return this.#chunks.endAt(index) - this.#startOf(index);
  }

  /** The bytes of the stream before a sequence number, evicted ones included. Null when the chunk before it is no longer known. */
  bytesBefore(seq: number): number | null {
    const index = this.#chunks.firstAfter(seq - 1);
    if (index > 0) return this.#chunks.endAt(index - 1);
    return this.#evictedSeq < seq ? this.#evictedEnd : null;
  }

  /** Head and tail, without overlap and together at most `maxBytes`. A head that is too long is cut to half of that. */
  snapshot(maxBytes: number): StreamSnapshot {
    const [retainedHead, retainedTail] = [this.#retainedHead, this.#retainedTail];
    const headBytes = Math.min(retainedHead, Math.max(maxBytes - retainedTail, Math.floor(maxBytes / 2)));
    const tailBytes = Math.min(retainedTail, maxBytes - headBytes);
    return {
      head: this.#head.subarray(0, headBytes),
      tail: this.#bytes(this.#totalBytes - tailBytes, this.#totalBytes),
      omittedBytes: this.#totalBytes - headBytes - tailBytes,
    };
  }

  get #retainedHead(): number {
    return Math.min(this.#totalBytes, this.#limits.headBytes);
  }

  /** Without what is in the head. */
  get #retainedTail(): number {
    return Math.max(0, this.#totalBytes - Math.max(this.#tailFrom, this.#retainedHead));
  }

  #startOf(index: number): number {
    return index === 0 ? this.#readFrom : this.#chunks.endAt(index - 1);
  }

  /** Makes everything before an offset unreadable. */
  #evictChunks(before: number): void {
    this.#readFrom = Math.max(this.#readFrom, before);
    while (this.#chunks.length > 0 && this.#chunks.endAt(0) <= this.#readFrom) {
      this.#evictedSeq = this.#chunks.seqAt(0);
      this.#evictedEnd = this.#chunks.endAt(0);
      this.#chunks.shift();
    }
  }

  /** Reports what is before an offset. The last bytes are those being appended, of which only the head is stored yet. */
  #reportEvicted(before: number, appended: Buffer, report: (bytes: Buffer) => void): void {
    const storedBytes = this.#totalBytes - appended.length;
    while (this.#reportedBytes < Math.min(before, storedBytes)) {
      const part = this.#contiguous(this.#reportedBytes, Math.min(before, storedBytes));
      this.#reportedBytes += part.length;
      report(part);
    }
    if (before <= storedBytes) return;
    const from = this.#reportedBytes - storedBytes;
    this.#reportedBytes = before;
    report(appended.subarray(from, before - storedBytes));
  }

  #appendToHead(bytes: Buffer): void {
    const needed = this.#totalBytes + bytes.length;
    if (needed > this.#head.length) {
      const size = Math.min(this.#limits.headBytes, Math.max(needed, this.#head.length * 2));
      this.#head = copyOf(this.#head, size);
    }
    bytes.copy(this.#head, this.#totalBytes);
  }

  /** The bytes end where the stream ends; those before the tail are not copied. */
  #appendToTail(bytes: Buffer): void {
    const end = this.#totalBytes;
    const from = Math.max(this.#tailFrom, end - bytes.length);
    if (from === end) return;
    this.#growRing(end - this.#tailFrom, from);
    const kept = bytes.subarray(bytes.length - (end - from));
    const at = from % this.#ring.length;
    const copied = kept.copy(this.#ring, at);
    if (copied < kept.length) kept.copy(this.#ring, 0, copied);
  }

  /** Doubles the ring buffer until `needed` bytes fit, and moves the tail, which ends at `end`. */
  #growRing(needed: number, end: number): void {
    if (needed <= this.#ring.length) return;
    let size = Math.max(this.#ring.length, INITIAL_RING_BYTES);
    while (size < needed) size *= 2;
    this.#resizeRing(Math.min(size, this.#limits.tailBytes), end);
  }

  /** Moves the tail, which ends at `end`, to a ring buffer of another size. */
  #resizeRing(size: number, end: number): void {
    const resized = Buffer.allocUnsafeSlow(size);
    for (let from = this.#tailFrom; from < end; ) {
      const part = this.#contiguous(from, end);
      const at = from % resized.length;
      from += part.copy(resized, at);
    }
    this.#ring = resized;
  }

  /** A view where the bytes are contiguous, otherwise a copy. */
  #bytes(from: number, to: number): Buffer {
    const first = this.#contiguous(from, to);
    if (from + first.length === to) return first;
    const parts = [first];
    for (let at = from + first.length; at < to; at += parts.at(-1)!.length) {
      parts.push(this.#contiguous(at, to));
    }
    return Buffer.concat(parts, to - from);
  }

  /** The bytes from an offset on, up to `to` or to the end of the buffer that holds them. */
  #contiguous(from: number, to: number): Buffer {
    const { headBytes } = this.#limits;
    if (from < headBytes) return this.#head.subarray(from, Math.min(to, headBytes));
    if (from === to) return NO_BYTES;
    const at = from % this.#ring.length;
    return this.#ring.subarray(at, Math.min(at + to - from, this.#ring.length));
  }
}

/** Copies as many bytes as fit to a buffer of this size. */
function copyOf(bytes: Buffer, size: number): Buffer {
  const copy = Buffer.allocUnsafeSlow(size);
  bytes.copy(copy);
  return copy;
}

const NO_BYTES = Buffer.alloc(0);
const INITIAL_RING_BYTES = 4096;
const INITIAL_CHUNKS = 8;
/** Three numbers of a {@link ChunkTable}. */
const BYTES_PER_CHUNK = 24;

/** A queue of chunks in sequence order, each with its end in the stream and its time: 24 bytes per chunk, cheap to shift and to search. */
class ChunkTable {
  readonly #maxLength: number;
  #seqs = new Float64Array(INITIAL_CHUNKS);
  #ends = new Float64Array(INITIAL_CHUNKS);
  #times = new Float64Array(INITIAL_CHUNKS);
  #first = 0;
  length = 0;

  constructor(maxLength: number) {
    this.#maxLength = maxLength;
  }

  push(seq: number, end: number, timeMs: number): void {
    if (this.length === this.#seqs.length) this.#grow();
    const slot = this.#slot(this.length++);
    this.#seqs[slot] = seq;
    this.#ends[slot] = end;
    this.#times[slot] = timeMs;
  }

  shift(): void {
    this.#first = this.#slot(1);
    this.length--;
  }

  seqAt(index: number): number {
    return this.#seqs[this.#slot(index)]!;
  }

  endAt(index: number): number {
    return this.#ends[this.#slot(index)]!;
  }

  timeAt(index: number): number {
    return this.#times[this.#slot(index)]!;
  }

  /** Index of the first chunk with a sequence number greater than `afterSeq`. */
  firstAfter(afterSeq: number): number {
    let low = 0;
    let high = this.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.seqAt(middle) > afterSeq) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  shrink(): void {
    if (this.length < this.#seqs.length) this.#resize(Math.max(1, this.length));
  }

  #slot(index: number): number {
    return (this.#first + index) % this.#seqs.length;
  }

  #grow(): void {
    this.#resize(Math.max(this.length + 1, Math.min(this.length * 2, this.#maxLength)));
  }

  #resize(size: number): void {
    const seqs = new Float64Array(size);
    const ends = new Float64Array(size);
    const times = new Float64Array(size);
    for (let index = 0; index < this.length; index++) {
      seqs[index] = this.seqAt(index);
      ends[index] = this.endAt(index);
      times[index] = this.timeAt(index);
    }
    [this.#seqs, this.#ends, this.#times, this.#first] = [seqs, ends, times, 0];
  }
}
