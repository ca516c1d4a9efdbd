import { onAbort } from '../../base/abort.ts';
import type { ProcessEvent } from '../backend.ts';
import { ClientError } from '../errors.ts';
import { LOG_MAX_BYTES, LOG_MAX_EVENTS } from '../limits.ts';
import { fillGaps, type SequencedEvent } from './event-order.ts';

/** Output that is retained elsewhere, with numbers behind `afterSeq` and up to `throughSeq`; what is missing is lost. */
export type Refill = (
  afterSeq: number,
  throughSeq: number,
) => Promise<readonly Extract<ProcessEvent, { type: 'output' }>[]>;

interface Entry {
  readonly event: ProcessEvent;
  readonly lastSeq: number;
}

/**
 * The latest events of one process. Any number of readers follow it, each at its own pace and from the first event on; one that
 * falls behind what is kept gets the rest through `refill`, and never makes anybody wait.
 */
export class ProcessEventLog {
  readonly #refill: Refill;
  #entries: Entry[] = [];
  /** Where the kept entries begin, and how many events came before the first entry. */
  #head = 0;
  #dropped = 0;
  #evictedThroughSeq = 0;
  #lastSeq = 0;
  #bytes = 0;
  #exited: Extract<ProcessEvent, { type: 'exited' }> | null = null;
  readonly #waiting = new Set<() => void>();

  constructor(refill: Refill) {
    this.#refill = refill;
  }

  /** Takes the next event in order. Nothing may follow `closed` or `failed`. */
  append(event: ProcessEvent): void {
    if (event.type === 'exited') this.#exited = event;
    if (event.type === 'lost') this.#lastSeq = event.toSeq;
    else if (event.type !== 'failed') this.#lastSeq = event.seq;
    this.#entries.push({ event, lastSeq: this.#lastSeq });
    this.#bytes += weight(event);
    this.#evict();
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const wake of waiting) wake();
  }

  /** Every event from the first on, then those to come; ends behind the last. Aborting rejects the next step. */
  subscribe(
    options: { readonly signal?: AbortSignal | undefined } = {},
  ): AsyncIterableIterator<ProcessEvent> {
    return new Subscription(this, options.signal ?? null);
  }

  /** What comes at a position, counted from 0; `refill` when it is no longer kept, `wait` when it has not happened yet. */
  at(position: number): ProcessEvent | 'refill' | 'wait' {
    if (position < this.#firstPosition) return 'refill';
    return this.#entries[position - this.#dropped]?.event ?? 'wait';
  }

  /** What stood between a number and the oldest event that is kept, and the position of that event. */
  async refill(afterSeq: number): Promise<{ readonly events: ProcessEvent[]; readonly position: number }> {
    const position = this.#firstPosition;
    const throughSeq = this.#evictedThroughSeq;
    const known = new Map<number, SequencedEvent>();
    for (const event of await this.#refill(afterSeq, throughSeq).catch(() => [])) {
      if (event.seq > afterSeq && event.seq <= throughSeq) known.set(event.seq, event);
    }
    const exited = this.#exited;
    if (exited !== null && exited.seq > afterSeq && exited.seq <= throughSeq) known.set(exited.seq, exited);
    return { events: fillGaps([...known.values()], afterSeq, throughSeq), position };
  }

  /** Calls back once, at the next event. Returns what takes it back. */
  onNext(wake: () => void): () => void {
    this.#waiting.add(wake);
    return () => this.#waiting.delete(wake);
  }

  get #firstPosition(): number {
    return this.#dropped + this.#head;
  }

  /** The newest event is always kept. */
  #evict(): void {
    for (;;) {
      const kept = this.#entries.length - this.#head;
      if (kept <= 1 || (kept <= LOG_MAX_EVENTS && this.#bytes <= LOG_MAX_BYTES)) break;
      const oldest = this.#entries[this.#head++]!;
      this.#bytes -= weight(oldest.event);
      this.#evictedThroughSeq = oldest.lastSeq;
    }
    // At least half of the list is live, so that events are neither kept for long nor moved often.
    if (this.#head * 2 <= this.#entries.length) return;
    this.#entries = this.#entries.slice(this.#head);
    this.#dropped += this.#head;
    this.#head = 0;
  }
}

/** One reader's place in a log. */
class Subscription implements AsyncIterableIterator<ProcessEvent> {
  readonly #log: ProcessEventLog;
  readonly #signal: AbortSignal | null;
  #ahead: ProcessEvent[] = [];
  #position = 0;
  #lastSeq = 0;
  #done = false;
  #wake: (() => void) | null = null;
  /** Steps are taken one after the other, however they are asked for. */
  #steps: Promise<unknown> = Promise.resolve();

  constructor(log: ProcessEventLog, signal: AbortSignal | null) {
    this.#log = log;
    this.#signal = signal;
  }

  [Symbol.asyncIterator](): AsyncIterableIterator<ProcessEvent> {
    return this;
  }

  next(): Promise<IteratorResult<ProcessEvent>> {
    const step = this.#steps.then(() => this.#step());
    this.#steps = step.catch(() => {});
    return step;
  }

  return(): Promise<IteratorResult<ProcessEvent>> {
    this.#done = true;
    this.#wake?.();
    return Promise.resolve({ done: true, value: undefined });
  }

  async #step(): Promise<IteratorResult<ProcessEvent>> {
    while (!this.#done) {
      if (this.#signal?.aborted) throw this.#aborted();
      const refilled = this.#ahead.shift();
      if (refilled !== undefined) return { done: false, value: this.#taken(refilled) };
      const event = this.#log.at(this.#position);
      if (event === 'refill') {
        await this.#pause((wake) => void this.#refill().then(wake));
      } else if (event === 'wait') {
        await this.#pause((wake) => this.#log.onNext(wake));
      } else {
        this.#position++;
        return { done: false, value: this.#taken(event) };
      }
    }
    return { done: true, value: undefined };
  }

  #taken(event: ProcessEvent): ProcessEvent {
    if (event.type === 'lost') this.#lastSeq = event.toSeq;
    else if (event.type !== 'failed') this.#lastSeq = event.seq;
    if (event.type === 'closed' || event.type === 'failed') this.#done = true;
    return event;
  }

  async #refill(): Promise<void> {
    const { events, position } = await this.#log.refill(this.#lastSeq);
    this.#ahead = events;
    this.#position = position;
  }

  /** Waits until it is woken, by what it waits for, by leaving or by the signal. */
  #pause(wakeLater: (wake: () => void) => (() => void) | undefined): Promise<void> {
    return new Promise((resolve) => {
      const wake = () => {
        stop?.();
        unsubscribe?.();
        this.#wake = null;
        resolve();
      };
      const stop = wakeLater(wake);
      const unsubscribe = this.#signal === null ? undefined : onAbort(this.#signal, wake);
      this.#wake = wake;
    });
  }

  #aborted(): ClientError {
    this.#done = true;
    return new ClientError('aborted', 'the reader of events was stopped', { cause: this.#signal?.reason });
  }
}

function weight(event: ProcessEvent): number {
  if (event.type === 'output') return event.bytes.length;
  return event.type === 'failed' ? event.error.message.length : 0;
}
