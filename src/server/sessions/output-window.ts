import { OUTPUT_EVENT_OVERHEAD_BYTES } from '../../protocol/limits.ts';
import { OUTPUT_WINDOW_MARKS } from '../limits.ts';

/**
 * The flow-control window of the client that drives a process: how much output it accepts before it reports it as used. Every event
 * counts for more than its bytes, because thousands of tiny ones take memory, too. Reports name the last event that was used, so a
 * report that is repeated or late changes nothing.
 */
export class OutputWindow {
  readonly #windowBytes: number;
  /** The output so far, and the part of it that was used. */
  #sent = 0;
  #used = 0;
  #lastSeq = 0;
  /** How much output there was up to an event. Close events share a mark, so that there are few. */
  readonly #marks: { seq: number; sent: number }[] = [];

  constructor(windowBytes: number) {
    this.#windowBytes = windowBytes;
  }

  /** Whether the program must wait. One event may exceed the window. */
  get full(): boolean {
    return this.#sent - this.#used >= this.#windowBytes;
  }

  /** Whether all output was used. */
  get empty(): boolean {
    return this.#used === this.#sent;
  }

  /** Counts an event. */
  output(seq: number, bytes: number): void {
    this.#sent += bytes + OUTPUT_EVENT_OVERHEAD_BYTES;
    this.#lastSeq = seq;
    const before = this.#marks.at(-2)?.sent ?? this.#used;
    const last = this.#marks.at(-1);
    if (last === undefined || this.#sent - before > this.#windowBytes / OUTPUT_WINDOW_MARKS) {
      this.#marks.push({ seq, sent: this.#sent });
    } else {
      last.seq = seq;
      last.sent = this.#sent;
    }
  }

  /** The client has used the events up to this one. */
  consumed(seq: number): void {
    while (this.#marks.length > 0 && this.#marks[0]!.seq <= seq) this.#used = this.#marks.shift()!.sent;
    if (seq >= this.#lastSeq) this.#used = this.#sent;
  }
}
