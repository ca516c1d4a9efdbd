import { onAbort } from '../../base/abort.ts';
import { OUTPUT_EVENT_OVERHEAD_BYTES } from '../../protocol/limits.ts';
import type { ProcessEvent } from '../backend.ts';
import { ClientError } from '../errors.ts';
import {
  LOG_MAX_BYTES,
  LOG_MAX_EVENTS,
  PROCESS_WINDOW_BYTES,
  REPORTS_PER_WINDOW,
  UNREAD_WINDOWS,
} from '../limits.ts';
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

/** The flow control of a log: the program waits for readers that are behind by more than the window. */
export interface LogWindow {
  readonly windowBytes: number;
  /** Called for each part of the window that all readers have used, with the last event of it. */
  consumed(seq: number): void;
}

interface Entry {
  readonly event: ProcessEvent;
  readonly lastSeq: number;
  /** What all events up to this one take of the window. */
  readonly used: number;
}

/** Where a reader is. */
interface Reader {
  /** The next event, counted from 0. */
  readonly position: number;
  readonly lastSeq: number;
  readonly used: number;
}

/**
 * Buffers the latest events of one process. Any number of readers follow it, each at its own pace and from the
 * first event on. A reader that falls behind the buffer gets the rest through `refill`, and never blocks the
 * others. With flow control the program waits for the slowest reader, so that nothing is lost. A reader counts from its first step until
 * it ends. Without a reader the program does not wait.
 */
export class ProcessEventLog {
  readonly start: LogStart;
  readonly #refill: Refill;
  #entries: Entry[] = [];
  /** The index of the first kept entry, and the number of events before the first entry of the array. */
  #head = 0;
  #dropped = 0;
  #evictedThroughSeq: number;
  #evictedUse = 0;
  /** The positions behind the last evicted event. */
  readonly #evictedPositions: StreamPositions;
  #lastSeq: number;
  #bytes = 0;
  #ended = false;
  #exited: Extract<ProcessEvent, { type: 'exited' }> | null = null;
  readonly #begin: () => () => void;
  readonly #waiting = new Set<() => void>();
  readonly #window: LogWindow | null;
  /** The readers that the program waits for, each with a function to call when it leaves. */
  readonly #readers = new Map<Reader, () => void>();
  #slowest: Reader | null = null;
  #used = 0;
  #reportedUse = 0;
  #over = false;

  /** `begin` is called when a reader starts to wait; its result, when the wait is over. */
  constructor(
    refill: Refill,
    start: LogStart = { afterSeq: 0, screen: null },
    begin: () => () => void = () => () => {},
    window: LogWindow | null = null,
  ) {
    this.#begin = begin;
    this.#window = window;
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
    this.#used += useOf(event);
    this.#entries.push({ event, lastSeq: this.#lastSeq, used: this.#used });
    this.#bytes += weight(event);
    this.#evict();
    this.#reportUse();
    this.#over = isLast(event);
    if (this.#over) this.#leaveAll();
    this.#wakeAll();
  }

  /** Ends the log without a last event. */
  end(): void {
    this.#over = true;
    this.#ended = true;
    this.#leaveAll();
    this.#wakeAll();
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

  /** A reader has begun: the program waits for it until it leaves or the signal aborts. */
  join(reader: Reader, signal: AbortSignal | null): void {
    if (this.#over || this.#window === null) return;
    const listens = signal !== null && !signal.aborted;
    this.#readers.set(reader, listens ? onAbort(signal, () => this.leave(reader)) : () => {});
    this.#findSlowest();
  }

  /** A reader has used another event. */
  moved(reader: Reader): void {
    if (reader === this.#slowest) this.#findSlowest();
  }

  leave(reader: Reader): void {
    this.#readers.get(reader)?.();
    if (this.#readers.delete(reader)) this.#findSlowest();
  }

  /**
   * Returns the entry at a position, counted from 0. Returns `refill` when it is no longer kept, `wait` when it has not
   * happened yet, and `end` after the last one of a log that was ended.
   */
  at(position: number): Entry | 'refill' | 'wait' | 'end' {
    if (position < this.#firstPosition) return 'refill';
    return this.#entries[position - this.#dropped] ?? (this.#ended ? 'end' : 'wait');
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

  #leaveAll(): void {
    for (const reader of [...this.#readers.keys()]) this.leave(reader);
  }

  #wakeAll(): void {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const wake of waiting) wake();
  }

  get #firstPosition(): number {
    return this.#dropped + this.#head;
  }

  #findSlowest(): void {
    this.#slowest = null;
    for (const reader of this.#readers.keys()) {
      if (this.#slowest === null || reader.position < this.#slowest.position) this.#slowest = reader;
    }
    this.#reportUse();
  }

  #reportUse(): void {
    if (this.#window === null) return;
    const used = this.#slowest?.used ?? this.#used;
    // The server assumes the usual window if another handle of the process has attached as the driver.
    const windowBytes = Math.min(this.#window.windowBytes, PROCESS_WINDOW_BYTES);
    if (used - this.#reportedUse < windowBytes / REPORTS_PER_WINDOW) return;
    this.#reportedUse = used;
    this.#window.consumed(this.#slowest?.lastSeq ?? this.#lastSeq);
  }

  /** Whether the oldest event is kept for a reader. The window limits how much is kept so, and in any case a multiple of it does. */
  get #isUnread(): boolean {
    if (this.#window === null || this.#slowest === null) return false;
    const { position, used } = this.#slowest;
    const limit = UNREAD_WINDOWS * Math.max(this.#window.windowBytes, PROCESS_WINDOW_BYTES);
    return position <= this.#firstPosition && this.#used - Math.max(used, this.#evictedUse) <= limit;
  }

  /** Evicts the oldest events. The newest event is always kept. */
  #evict(): void {
    for (;;) {
      const kept = this.#entries.length - this.#head;
      if (kept <= 1 || (kept <= LOG_MAX_EVENTS && this.#bytes <= LOG_MAX_BYTES) || this.#isUnread) break;
      const oldest = this.#entries[this.#head++]!;
      this.#bytes -= weight(oldest.event);
      this.#evictedThroughSeq = oldest.lastSeq;
      this.#evictedUse = oldest.used;
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
class Subscription implements AsyncIterableIterator<ProcessEvent>, Reader {
  position = 0;
  lastSeq: number;
  used = 0;
  readonly #log: ProcessEventLog;
  readonly #signal: AbortSignal | null;
  #ahead: ProcessEvent[];
  #begun = false;
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
    this.lastSeq = afterSeq;
    this.#positions = positionsAfter(afterSeq);
  }

  [Symbol.asyncIterator](): AsyncIterableIterator<ProcessEvent> {
    return this;
  }

  next(): Promise<IteratorResult<ProcessEvent>> {
    if (!this.#begun && !this.#done) this.#log.join(this, this.#signal);
    this.#begun = true;
    const step = this.#steps.then(() => this.#step());
    this.#steps = step.catch(() => {});
    return step;
  }

  return(): Promise<IteratorResult<ProcessEvent>> {
    this.#end();
    this.#wake?.();
    return Promise.resolve({ done: true, value: undefined });
  }

  async #step(): Promise<IteratorResult<ProcessEvent>> {
    while (!this.#done) {
      if (this.#signal?.aborted) throw this.#aborted();
      const refilled = this.#ahead.shift();
      if (refilled !== undefined) return { done: false, value: this.#taken(refilled) };
      const entry = this.#log.at(this.position);
      if (entry === 'refill') {
        await this.#pause((wake) => void this.#refill().then(wake));
      } else if (entry === 'wait') {
        await this.#pause((wake) => this.#log.onNext(wake));
      } else if (entry === 'end') {
        this.#done = true;
      } else {
        this.position++;
        this.used = entry.used;
        return { done: false, value: this.#taken(entry.event) };
      }
    }
    return { done: true, value: undefined };
  }

  #taken(event: ProcessEvent): ProcessEvent {
    this.lastSeq = seqOf(event) ?? this.lastSeq;
    movePast(this.#positions, event);
    if (isLast(event)) this.#end();
    else this.#log.moved(this);
    return event;
  }

  #end(): void {
    this.#done = true;
    this.#log.leave(this);
  }

  async #refill(): Promise<void> {
    const { events, position } = await this.#log.refill(this.lastSeq, this.#positions);
    this.#ahead = [...events];
    this.position = position;
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
    this.#end();
    return new ClientError('aborted', 'reading the events was aborted', { cause: this.#signal?.reason });
  }
}

/** The last sequence number of an event; null for events without one. */
function seqOf(event: ProcessEvent): number | null {
  if (event.type === 'lost') return event.toSeq;
  return 'seq' in event ? event.seq : null;
}

/** Whether no event follows. */
function isLast({ type }: ProcessEvent): boolean {
  return type === 'closed' || type === 'failed';
}

/** What an event takes of the window. The size of lost output may be unknown, so its use is reported immediately. */
function useOf(event: ProcessEvent): number {
  if (event.type === 'lost') return PROCESS_WINDOW_BYTES / REPORTS_PER_WINDOW;
  return event.type === 'output' ? event.bytes.length + OUTPUT_EVENT_OVERHEAD_BYTES : 0;
}

function weight(event: ProcessEvent): number {
  if (event.type === 'output') return event.bytes.length;
  return event.type === 'failed' ? event.error.message.length : 0;
}
