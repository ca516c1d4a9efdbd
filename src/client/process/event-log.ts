import { onAbort } from '../../base/abort.ts';
import type { ProcessEvent } from '../backend.ts';
import { ClientError } from '../errors.ts';
import { LOG_MAX_BYTES, LOG_MAX_EVENTS } from '../limits.ts';
import { fillGaps, type SequencedEvent } from './event-order.ts';
import { movePast, positionsAfter, type StreamPositions, withLostSizes } from './stream-positions.ts';

/** Fetches output that the server retains, after `afterSeq` and up to `throughSeq`. Whatever is missing is lost. */
export type Refill = (
  afterSeq: number,
  throughSeq: number,
) => Promise<readonly Extract<ProcessEvent, { type: 'output' }>[]>;

/** Where a log begins. */
export interface LogStart {
  /** The sequence number before the first event. */
  readonly afterSeq: number;
  /** What every reader gets before the first event. */
  readonly screen: Extract<ProcessEvent, { type: 'screen' }> | null;
}

interface Entry {
  readonly event: ProcessEvent;
  readonly lastSeq: number;
}

/**
 * Buffers the latest events of one process. Any number of readers follow it, each at its own pace and from the
 * first event on. A reader that falls behind the buffer gets the rest through `refill`, and never blocks the
 * others.
 */
export class ProcessEventLog {
  readonly start: LogStart;
  readonly #refill: Refill;
  #entries: Entry[] = [];
  /** The index of the first kept entry, and the number of events before the first entry of the array. */
  #head = 0;
  #dropped = 0;
  #evictedThroughSeq: number;
  /** The positions behind the last evicted event. */
  readonly #evictedPositions: StreamPositions;
  #lastSeq: number;
  #bytes = 0;
  #exited: Extract<ProcessEvent, { type: 'exited' }> | null = null;
  readonly #begin: () => () => void;
  readonly #waiting = new Set<() => void>();

  /** `begin` is called when a reader starts to wait; its result, when the wait is over. */
  constructor(
    refill: Refill,
    start: LogStart = { afterSeq: 0, screen: null },
    begin: () => () => void = () => () => {},
  ) {
    this.#begin = begin;
    this.#refill = refill;
    this.start = start;
    this.#evictedThroughSeq = start.afterSeq;
    this.#evictedPositions = positionsAfter(start.afterSeq);
    this.#lastSeq = start.afterSeq;
  }

  /** Appends the next event in order. No event may follow `closed` or `failed`. */
  append(event: ProcessEvent): void {
    if (event.type === 'exited') this.#exited = event;
    this.#lastSeq = seqOf(event) ?? this.#lastSeq;
    this.#entries.push({ event, lastSeq: this.#lastSeq });
    this.#bytes += weight(event);
    this.#evict();
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const wake of waiting) wake();
  }

  /**
   * Iterates over every event from the first one on, then over new ones. Ends after the last. An abort rejects the
   * next step.
   */
  subscribe(
    options: { readonly signal?: AbortSignal | undefined } = {},
  ): AsyncIterableIterator<ProcessEvent> {
    return new Subscription(this, options.signal ?? null);
  }

  /**
   * Returns the event at a position, counted from 0. Returns `refill` when it is no longer kept and `wait` when it
   * has not happened yet.
   */
  at(position: number): ProcessEvent | 'refill' | 'wait' {
    if (position < this.#firstPosition) return 'refill';
    return this.#entries[position - this.#dropped]?.event ?? 'wait';
  }

  /**
   * Fetches the events between a sequence number and the oldest kept event. `position` is the position of that kept
   * event. The reader's stream positions give the size of what is lost.
   */
  async refill(
    afterSeq: number,
    before: StreamPositions,
  ): Promise<{ readonly events: readonly ProcessEvent[]; readonly position: number }> {
    const position = this.#firstPosition;
    const after = { ...this.#evictedPositions };
    const throughSeq = this.#evictedThroughSeq;
    const known = new Map<number, SequencedEvent>();
    for (const event of await this.#refill(afterSeq, throughSeq).catch(() => [])) {
      if (event.seq > afterSeq && event.seq <= throughSeq) known.set(event.seq, event);
    }
    const exited = this.#exited;
    if (exited !== null && exited.seq > afterSeq && exited.seq <= throughSeq) known.set(exited.seq, exited);
    const events = fillGaps([...known.values()], afterSeq, throughSeq);
    const isCounted = Object.values(after).every((bytes) => bytes !== null);
    return { events: isCounted ? withLostSizes(events, before, after) : events, position };
  }

  /** Calls back once, at the next event. Returns a function that cancels it. */
  onNext(wake: () => void): () => void {
    const end = this.#begin();
    const next = () => {
      end();
      wake();
    };
    this.#waiting.add(next);
    return () => {
      end();
      this.#waiting.delete(next);
    };
  }

  get #firstPosition(): number {
    return this.#dropped + this.#head;
  }

  /** Evicts the oldest events. The newest event is always kept. */
  #evict(): void {
    for (;;) {
      const kept = this.#entries.length - this.#head;
      if (kept <= 1 || (kept <= LOG_MAX_EVENTS && this.#bytes <= LOG_MAX_BYTES)) break;
      const oldest = this.#entries[this.#head++]!;
      this.#bytes -= weight(oldest.event);
      this.#evictedThroughSeq = oldest.lastSeq;
      movePast(this.#evictedPositions, oldest.event);
    }
    // Compact only when more than half of the array is dead, so that entries are neither kept for long nor moved
    // often.
    if (this.#head * 2 <= this.#entries.length) return;
    this.#entries = this.#entries.slice(this.#head);
    this.#dropped += this.#head;
    this.#head = 0;
  }
}

/** One reader's position in a log. */
class Subscription implements AsyncIterableIterator<ProcessEvent> {
  readonly #log: ProcessEventLog;
  readonly #signal: AbortSignal | null;
  #ahead: ProcessEvent[];
  #position = 0;
  #lastSeq: number;
  readonly #positions: StreamPositions;
  #done = false;
  #wake: (() => void) | null = null;
  /** Runs steps one after the other, even when `next` is called concurrently. */
  #steps: Promise<unknown> = Promise.resolve();

  constructor(log: ProcessEventLog, signal: AbortSignal | null) {
    const { screen, afterSeq } = log.start;
    this.#log = log;
    this.#signal = signal;
    this.#ahead = screen === null ? [] : [screen];
    this.#lastSeq = afterSeq;
    this.#positions = positionsAfter(afterSeq);
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
    this.#lastSeq = seqOf(event) ?? this.#lastSeq;
    movePast(this.#positions, event);
    if (event.type === 'closed' || event.type === 'failed') this.#done = true;
    return event;
  }

  async #refill(): Promise<void> {
    const { events, position } = await this.#log.refill(this.#lastSeq, this.#positions);
    this.#ahead = [...events];
    this.#position = position;
  }

  /** Waits until its callback, `return` or the signal wakes it. */
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
    return new ClientError('aborted', 'reading the events was aborted', { cause: this.#signal?.reason });
  }
}

/** The last sequence number of an event; null for events without one. */
function seqOf(event: ProcessEvent): number | null {
  if (event.type === 'lost') return event.toSeq;
  return 'seq' in event ? event.seq : null;
}

function weight(event: ProcessEvent): number {
  if (event.type === 'output') return event.bytes.length;
  return event.type === 'failed' ? event.error.message.length : 0;
}
