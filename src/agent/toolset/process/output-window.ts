import type { OutputStream, ProcessEvent } from '../../../environment/index.ts';
import { HeadTailBuffer } from '../../output/head-tail-buffer.ts';
import { isContinuation, TextPieces } from '../../output/text-pieces.ts';
import { MAX_HELD_BYTES, OUTPUT_WINDOW_BYTES, RETAINED_BYTES } from '../limits.ts';
import { unfinishedEscape } from '../text/escape-parser.ts';
import type { Position } from './cursor.ts';

type OutputEvent = Extract<ProcessEvent, { type: 'output' }>;

/** The output that a call has collected. */
export interface CollectedOutput {
  /** The first bytes, or all of them. */
  readonly head: Uint8Array;
  /** The last bytes; empty when nothing is omitted. */
  readonly tail: Uint8Array;
  /** Bytes between them. */
  readonly omittedBytes: number;
  /** Bytes that the server no longer has; null when their number is unknown. */
  readonly lostBytes: number | null;
  /** Whether output before the first byte is lost, so that it may be within a line. */
  readonly isCut: boolean;
  /** Bytes of this output that a server with the default settings no longer has. */
  readonly expiredBytes: number;
  /** Where the next call continues. */
  readonly next: Position;
}

/**
 * Collects the output of a process from a position on, within bounded memory, and knows where the next call continues. A character or
 * escape sequence whose rest has not arrived is left for that call.
 */
export class OutputWindow {
  readonly #from: Position;
  readonly #kept: HeadTailBuffer;
  readonly #pieces = new Map<OutputStream, TextPieces>();
  /** Bytes that are new. */
  #fresh = 0;
  #skipped = 0;
  #lost: number | null = 0;
  #lastSeq: number;
  #isCut = false;
  readonly #streamBytes = new Map<OutputStream, number>();
  #lastChunk: OutputEvent | null = null;
  /** Bytes at the beginning of the last chunk that the server no longer has, and those that an earlier call has returned. */
  #trimmed = 0;
  #seen = 0;

  constructor(from: Position, capacity = OUTPUT_WINDOW_BYTES) {
    this.#from = from;
    this.#kept = new HeadTailBuffer(capacity);
    this.#lastSeq = from.seq;
  }

  /** The last event that was taken. */
  get lastSeq(): number {
    return this.#lastSeq;
  }

  /** New output so far. */
  get size(): number {
    return this.#kept.totalBytes;
  }

  /** Takes an event in order. Returns the new output of it, in pieces that split no character. */
  push(event: ProcessEvent): readonly Uint8Array[] {
    if (event.type === 'failed' || event.type === 'screen') return [];
    if (event.type === 'lost') {
      this.#lastSeq = event.toSeq;
      this.#isCut ||= this.#fresh === 0;
      this.#lost = event.bytes === null || this.#lost === null ? null : this.#lost + event.bytes;
      return [];
    }
    if (event.type === 'output' && this.#fresh === 0) this.#isCut ||= event.seq > this.#lastSeq + 1;
    this.#lastSeq = event.seq;
    if (event.type !== 'output') return [];
    this.#streamBytes.set(event.stream, (this.#streamBytes.get(event.stream) ?? 0) + event.bytes.length);
    const { seq, offset, length } = this.#from;
    const isFirst = event.seq === seq + 1;
    // Of a chunk that the server keeps in part, it keeps the end.
    this.#trimmed = isFirst ? Math.max(0, length - event.bytes.length) : 0;
    this.#seen = isFirst ? Math.max(0, offset - this.#trimmed) : 0;
    this.#fresh += event.bytes.length - this.#seen;
    this.#lastChunk = event;
    return this.#keep(this.#piecesOf(event.stream).push(event.bytes.subarray(this.#seen)));
  }

  /** Counts an event that the next call will return. */
  skip(event: ProcessEvent): void {
    if (event.type === 'output') this.#skipped += event.bytes.length;
  }

  /** Counts what was lost, when all events have arrived that came before the server reported the total of bytes. */
  reconcile(totalBytes: number | null): void {
    if (this.#from.bytes === null || totalBytes === null) return;
    this.#lost = Math.max(0, totalBytes - this.#from.bytes - this.#fresh - this.#skipped);
  }

  /**
   * Returns what was collected. `complete`: no output follows. `maxBytes`: the rest of the last chunk is left for the next call. `hasMore`:
   * output follows that has arrived already, so that this call must return something.
   */
  finish(complete: boolean, maxBytes = Number.POSITIVE_INFINITY, hasMore = false): CollectedOutput {
    const unfinished = this.#flush();
    const waits = !complete && !(hasMore && unfinished >= this.size);
    const held = Math.max(this.#excess(maxBytes), waits ? unfinished : 0);
    const { head, tail, omittedBytes } = this.#kept;
    const expiredBytes = [...this.#streamBytes.values()].reduce(
      (sum, bytes) => sum + Math.max(0, bytes - RETAINED_BYTES),
      0,
    );
    const rest = {
      omittedBytes,
      lostBytes: this.#lost,
      isCut: this.#isCut,
      expiredBytes,
      next: this.#position(held),
    };
    if (omittedBytes > 0) return { head, tail: tail.subarray(0, tail.length - held), ...rest };
    const all = Buffer.concat([head, tail]);
    return { head: all.subarray(0, all.length - held), tail: NO_BYTES, ...rest };
  }

  #position(held: number): Position {
    const before = this.#from.bytes;
    const bytes = before === null || this.#lost === null ? null : before + this.#lost + this.#fresh;
    const chunk = this.#lastChunk;
    if (held > 0 && chunk !== null) {
      const length = chunk.bytes.length + this.#trimmed;
      const offset = length - held;
      const at = { seq: chunk.seq - 1, bytes: bytes === null ? null : bytes - held };
      return offset === 0 ? { ...at, offset: 0, length: 0 } : { ...at, offset, length };
    }
    return this.#lastSeq === this.#from.seq
      ? this.#from
      : { seq: this.#lastSeq, bytes, offset: 0, length: 0 };
  }

  /**
   * Adds the unfinished characters. Returns how many bytes at the end of the output are unfinished; none when they are not the end of the
   * last event, because a position cannot be there.
   */
  #flush(): number {
    const chunk = this.#lastChunk;
    let others = 0;
    for (const [stream, pieces] of this.#pieces) {
      if (stream !== chunk?.stream) others += sizeOf(this.#keep(pieces.flush()));
    }
    if (chunk === null) return 0;
    const character = sizeOf(this.#keep(this.#piecesOf(chunk.stream).flush()));
    const unfinished = unfinishedEscape(chunk.bytes.subarray(-MAX_HELD_BYTES)) || character;
    const isWithin = chunk.seq === this.#lastSeq && unfinished <= chunk.bytes.length - this.#seen;
    return others === 0 && isWithin ? unfinished : 0;
  }

  /** How many bytes of the last chunk exceed the limit. The rest ends with a line if possible, else with a character. */
  #excess(maxBytes: number): number {
    const chunk = this.#lastChunk;
    const excess = this.size - maxBytes;
    if (chunk === null || excess <= 0) return 0;
    const fresh = chunk.bytes.subarray(this.#seen);
    const limit = Math.max(0, fresh.length - excess);
    let end = fresh.lastIndexOf(NEWLINE, limit - 1) + 1;
    if (end === 0 || limit - end > MAX_CUT_BYTES) {
      end = limit;
      while (end > 0 && isContinuation(fresh[end]!)) end--;
    }
    return fresh.length - end;
  }

  #keep(pieces: readonly Uint8Array[]): readonly Uint8Array[] {
    for (const piece of pieces) this.#kept.push(piece);
    return pieces;
  }

  #piecesOf(stream: OutputStream): TextPieces {
    let pieces = this.#pieces.get(stream);
    if (pieces === undefined) {
      pieces = new TextPieces(PIECE_BYTES);
      this.#pieces.set(stream, pieces);
    }
    return pieces;
  }
}

const NO_BYTES = new Uint8Array(0);
const NEWLINE = 0x0a;
const PIECE_BYTES = 65_536;
/** How much a cut at a line may be before the limit. */
const MAX_CUT_BYTES = 4_096;

function sizeOf(pieces: readonly Uint8Array[]): number {
  return pieces.reduce((sum, { length }) => sum + length, 0);
}
