import type { LostEvent, OutputStream, ProcessEvent } from '../../client/backend.ts';

type OutputEvent = Extract<ProcessEvent, { type: 'output' }>;

/** A line of one stream, or the part of it that is there. */
interface Line {
  readonly stream: OutputStream;
  readonly parts: Uint8Array[];
  readonly firstSeq: number;
  /** The time of its first part, if it is known. */
  readonly timeMs: number | undefined;
  /** The number of the event that its last part came with. */
  lastSeq: number;
  /** The gap that its beginning is missing in. */
  readonly cutBy: LostEvent | null;
}

/** Keeps the last lines of output. Lines of several streams count in the order of their ends. */
export class LogTail {
  readonly #maxLines: number;
  /** Lines that have ended. More than wanted, so that they are not moved for each line. */
  #lines: Line[] = [];
  readonly #open = new Map<OutputStream, Line>();
  readonly #losses: LostEvent[] = [];
  /** The last gap of each stream, until its next output. */
  readonly #gaps = new Map<OutputStream, LostEvent>();

  constructor(maxLines: number) {
    this.#maxLines = maxLines;
  }

  output({ stream, seq, bytes, timeMs }: OutputEvent): void {
    for (let from = 0; from < bytes.length; ) {
      const newline = bytes.indexOf(NEWLINE, from);
      const to = newline === -1 ? bytes.length : newline + 1;
      const line = this.#lineOf(stream, seq, timeMs);
      line.parts.push(bytes.subarray(from, to));
      line.lastSeq = seq;
      if (newline !== -1) this.#end(line);
      from = to;
    }
  }

  lost(event: LostEvent): void {
    this.#losses.push(event);
    for (const stream of STREAMS) {
      if (event.streamBytes?.[stream] === 0) continue;
      this.#gaps.set(stream, event);
      const line = this.#open.get(stream);
      if (line !== undefined) this.#end(line);
    }
  }

  /** The last lines, as one event each, and the gaps between them or in them. */
  *take(): Generator<OutputEvent | LostEvent> {
    const lines = lastOf([...this.#lines, ...this.#open.values()], this.#maxLines);
    const isAll = lines.length < this.#maxLines;
    const firstSeq = lines.reduce((first, line) => Math.min(first, line.firstSeq), Number.POSITIVE_INFINITY);
    const losses = this.#losses.filter(
      (loss) => isAll || loss.fromSeq > firstSeq || lines.some(({ cutBy }) => cutBy === loss),
    );
    for (const { stream, parts, lastSeq, timeMs } of lines) {
      while (losses[0] !== undefined && losses[0].toSeq < lastSeq) yield losses.shift()!;
      const time = timeMs === undefined ? {} : { timeMs };
      yield { type: 'output', seq: lastSeq, stream, bytes: Buffer.concat(parts), ...time };
    }
    yield* losses;
  }

  #lineOf(stream: OutputStream, seq: number, timeMs: number | undefined): Line {
    const open = this.#open.get(stream);
    if (open !== undefined) return open;
    const cutBy = this.#gaps.get(stream) ?? null;
    const line = { stream, parts: [], firstSeq: seq, lastSeq: seq, cutBy, timeMs };
    this.#gaps.delete(stream);
    this.#open.set(stream, line);
    return line;
  }

  #end(line: Line): void {
    this.#open.delete(line.stream);
    this.#lines.push(line);
    if (this.#lines.length > 2 * this.#maxLines + 64) this.#lines = lastOf(this.#lines, this.#maxLines);
  }
}

function lastOf<Item>(items: readonly Item[], count: number): Item[] {
  return items.slice(Math.max(0, items.length - count));
}

const NEWLINE = 0x0a;
const STREAMS: readonly OutputStream[] = ['stdout', 'stderr', 'pty'];
