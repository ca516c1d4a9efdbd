import type { RetainedChunk } from '../../process/output-log.ts';
import type { LimitReason } from '../../process/resources/resource-limits.ts';
import type { StreamName } from '../../process/spawn/spawner.ts';
import type { ProcessNotifier } from './process-events.ts';

/** The exit of a program. */
export interface ExitEvent {
  readonly seq: number;
  readonly exitCode: number;
  readonly reason: LimitReason | null;
  readonly denied: boolean;
}

/** The last event of a process. */
export interface ClosedEvent {
  readonly seq: number;
  readonly reason: LimitReason | null;
}

/** The events of a process so far. */
export interface EventSource {
  /** The sequence number of the next event. */
  readonly nextSeq: number;
  readonly exit: ExitEvent | null;
  readonly end: ClosedEvent | null;
  /** When the last output was read, in Unix time. */
  readonly outputAtMs: number;
  /** The stream that a text for the client belongs to. */
  readonly textStream: StreamName;
  /** The first retained chunks after a sequence number; none when the process is forgotten. Valid until the next event. */
  retainedAfter(afterSeq: number): readonly RetainedChunk[];
}

/** The connection that a stream leads to. */
interface StreamSink {
  readonly saturated: boolean;
  /** Whether the client understands `process/skipped`. */
  readonly sharing: boolean;
}

/**
 * The events of one process on their way to one connection. A lossless stream sends every event; the program is paused while its
 * connection does not keep up. Any other stream sends nothing meanwhile. Afterwards it continues with what is still retained. When a
 * part of that is gone, it reports the gap and continues with new output. The exit and the end are always sent.
 *
 * A client of the reference waits for every sequence number and does not know `process/skipped`. It gets a line of text in place of the
 * first missing event, and empty output in place of the others.
 */
export class EventStream {
  /** Whether the program waits for this connection. */
  lossless: boolean;
  /** Whether the connection gets the time of output. */
  timed = false;
  readonly #source: EventSource;
  readonly #sink: StreamSink;
  readonly #notifier: ProcessNotifier;
  #nextSeq: number;
  /** Empty output stands for the events before this one. */
  #filledUntil = 0;
  #held = false;

  constructor(source: EventSource, sink: StreamSink, notifier: ProcessNotifier, lossless: boolean) {
    this.#source = source;
    this.#sink = sink;
    this.#notifier = notifier;
    this.lossless = lossless;
    this.#nextSeq = source.nextSeq;
  }

  /** The first event that was not sent. */
  get nextSeq(): number {
    return this.#nextSeq;
  }

  /** Leaves out everything before an event. Nothing is sent until {@link begin}. */
  hold(nextSeq: number): void {
    this.#nextSeq = nextSeq;
    this.#filledUntil = 0;
    this.#held = true;
  }

  /** Sends retained output, the oldest first, and continues with new output. */
  begin(): void {
    this.#held = false;
    this.#catchUp(false);
  }

  /** Continues with new output. What was not sent before is left out without a report. */
  restart(): void {
    this.#nextSeq = this.#source.nextSeq;
    this.#filledUntil = 0;
    this.#held = false;
  }

  /** Sends what was not sent while the connection did not keep up. */
  resume(): void {
    if (!this.#held) this.#catchUp(!this.lossless);
  }

  /** Whether the next event can be sent now. If so it counts as sent. */
  takes(seq: number): boolean {
    if (seq !== this.#nextSeq || this.#held || (!this.lossless && this.#sink.saturated)) return false;
    this.#nextSeq = seq + 1;
    return true;
  }

  /** Sends new output. */
  output(seq: number, stream: StreamName, bytes: Buffer): void {
    if (!this.takes(seq)) return;
    this.#notifier.output(seq, stream, bytes, this.timed ? this.#source.outputAtMs : undefined);
  }

  /** Sends a new exit event. */
  exited(exit: ExitEvent): void {
    if (this.takes(exit.seq)) this.#sendExit(exit);
  }

  /** Sends a new end event. */
  closed(end: ClosedEvent): void {
    if (this.takes(end.seq)) this.#notifier.closed(end.seq, end.reason);
  }

  #catchUp(skipsToNew: boolean): void {
    if (!this.#fillGap()) return;
    while (this.#nextSeq < this.#source.nextSeq && !this.#sink.saturated) {
      const chunks = this.#source.retainedAfter(this.#nextSeq - 1);
      const firstSeq = chunks[0]?.seq ?? this.#source.nextSeq;
      if (chunks.length === 0 || (skipsToNew && this.#missesOutput(firstSeq))) {
        this.#advance(this.#source.nextSeq);
        return;
      }
      for (const { seq, stream, bytes, timeMs } of chunks) {
        if (!this.#advance(seq)) return;
        this.#notifier.output(seq, stream, bytes, this.timed ? timeMs : undefined);
        this.#nextSeq = seq + 1;
        if (this.#sink.saturated) return;
      }
    }
  }

  /** Whether output before an event is neither sent nor retained. */
  #missesOutput(beforeSeq: number): boolean {
    const marks = this.#marksBefore(beforeSeq).length;
    return beforeSeq - this.#nextSeq > marks;
  }

  /**
   * Continues with an event. Sends exit and end on the way and reports the rest as a gap. Returns false when the connection did not keep
   * up before that.
   */
  #advance(toSeq: number): boolean {
    for (const mark of this.#marksBefore(toSeq)) {
      if (!this.#passGap(mark.seq)) return false;
      if ('exitCode' in mark) this.#sendExit(mark);
      else this.#notifier.closed(mark.seq, mark.reason);
      this.#nextSeq = mark.seq + 1;
    }
    return this.#passGap(toSeq);
  }

  #marksBefore(seq: number): readonly (ExitEvent | ClosedEvent)[] {
    const { exit, end } = this.#source;
    return [exit, end].filter((mark) => mark !== null && mark.seq >= this.#nextSeq && mark.seq < seq) as (
      | ExitEvent
      | ClosedEvent
    )[];
  }

  /** Reports the events before one as a gap. Returns false when the connection did not keep up meanwhile. */
  #passGap(beforeSeq: number): boolean {
    const [from, to] = [this.#nextSeq, beforeSeq - 1];
    if (to < from) return true;
    if (this.#sink.sharing) {
      this.#notifier.skipped(from, to);
      this.#nextSeq = beforeSeq;
      return true;
    }
    if (this.#sink.saturated) return false;
    const text = `\r\n[events ${from} to ${to} of this process were skipped: ${WHY_SKIPPED}]\r\n`;
    this.#notifier.output(this.#nextSeq++, this.#source.textStream, Buffer.from(text));
    this.#filledUntil = beforeSeq;
    return this.#fillGap();
  }

  /** Sends empty output in place of the rest of a gap. Returns false when the connection did not keep up meanwhile. */
  #fillGap(): boolean {
    while (this.#nextSeq < this.#filledUntil) {
      if (this.#sink.saturated) return false;
      this.#notifier.output(this.#nextSeq++, this.#source.textStream, NO_BYTES);
    }
    return true;
  }

  #sendExit({ seq, exitCode, reason, denied }: ExitEvent): void {
    this.#notifier.exited(seq, exitCode, reason, denied);
  }
}

const NO_BYTES = Buffer.alloc(0);
const WHY_SKIPPED = 'another client drives it, and this client reads too slowly';
