import type { LostEvent, ProcessEvent, ReadPage } from '../backend.ts';
import type { ReadPosition } from '../connection/server-messages.ts';
import { REORDER_MAX_BYTES, REORDER_MAX_EVENTS } from '../limits.ts';
import {
  movePast,
  positionsAfter,
  STREAMS,
  type StreamPositions,
  withLostSizes,
} from './stream-positions.ts';

/** An event that carries a sequence number. */
export type SequencedEvent = Extract<ProcessEvent, { readonly type: 'output' | 'exited' | 'closed' }>;
/** A published event: a sequenced one, or `lost` for those that are gone. */
export type OrderedEvent = SequencedEvent | LostEvent;

/** A page that contradicts itself or earlier events. */
export class InconsistentPageError extends Error {
  override readonly name = 'InconsistentPageError';
}

/**
 * Puts the events of one process in order. Each sequence number is published once, after all earlier ones; nothing
 * follows `closed`. Early events wait in a bounded buffer. Pages of retained output fill the gaps.
 */
export class EventOrder {
  readonly #publish: (event: OrderedEvent) => void;
  readonly #pending = new Map<number, SequencedEvent>();
  #pendingBytes = 0;
  /** The highest sequence number that did not fit into the buffer. */
  #refusedSeq = 0;
  /** The events up to here are not wanted. */
  readonly #startSeq: number;
  #lastSeq: number;
  #exitSeen = false;
  #ended = false;
  /** The positions behind the last published event. */
  readonly #positions: StreamPositions;

  /** Begins after the event `startSeq`. */
  constructor(publish: (event: OrderedEvent) => void, startSeq = 0) {
    this.#publish = publish;
    this.#startSeq = startSeq;
    this.#lastSeq = startSeq;
    this.#positions = positionsAfter(startSeq);
  }

  /** The last published sequence number. */
  get lastSeq(): number {
    return this.#lastSeq;
  }

  /** Whether no further event is published. */
  get ended(): boolean {
    return this.#ended;
  }

  /** Whether an event is missing before one that has arrived. */
  get waiting(): boolean {
    return this.#pending.size > 0 || this.#refusedSeq > this.#lastSeq;
  }

  /**
   * Adds an event in any order. Returns false when it is early and the buffer is full: the missing events must be
   * read first.
   */
  insert(event: SequencedEvent): boolean {
    if (this.#ended || event.seq <= this.#lastSeq || this.#pending.has(event.seq)) return true;
    if (event.seq === this.#lastSeq + 1) {
      this.#advance(event);
      this.#drain();
      return true;
    }
    const bytes = bytesOf(event);
    if (this.#pending.size >= REORDER_MAX_EVENTS || this.#pendingBytes + bytes > REORDER_MAX_BYTES) {
      this.#refusedSeq = Math.max(this.#refusedSeq, event.seq);
      return false;
    }
    this.#pending.set(event.seq, event);
    this.#pendingBytes += bytes;
    return true;
  }

  /** Notes that the events up to this one are not sent: they must be read. */
  skip(toSeq: number): void {
    if (!this.#ended) this.#refusedSeq = Math.max(this.#refusedSeq, toSeq);
  }

  /** Whether merging the page would report events as lost. */
  hasGap(page: ReadPage): boolean {
    if (this.#ended || page.nextSeq - 1 <= this.#lastSeq) return false;
    return this.#completed(page).some((event) => event.type === 'lost');
  }

  /**
   * Merges everything after the last published event from a page that was read without a byte limit. The position
   * gives the size of lost output. Throws InconsistentPageError and changes nothing when the page is inconsistent.
   */
  merge(page: ReadPage, position: ReadPosition | null = null): void {
    if (page.failure !== null) throw new InconsistentPageError(page.failure);
    const target = page.nextSeq - 1;
    if (this.#ended) return;
    // Every reader gets the end, even one that begins after it.
    if (page.closed && target === this.#startSeq) this.#advance({ type: 'closed', seq: target });
    if (target <= this.#lastSeq) return;
    const events = this.#sized(this.#completed(page, position?.exitSeq), position);
    for (const seq of [...this.#pending.keys()]) if (seq <= target) this.#forget(seq);
    for (const event of events) if (!this.#ended) this.#advance(event);
    for (const stream of STREAMS)
      this.#positions[stream] = position?.streamBytes[stream] ?? this.#positions[stream];
    this.#drain();
  }

  /** Drops the waiting events and all later ones. */
  end(): void {
    this.#ended = true;
    this.#refusedSeq = 0;
    this.#pending.clear();
    this.#pendingBytes = 0;
  }

  /** Returns everything between the last published event and the end of the page, in order and without gaps. */
  #completed(page: ReadPage, exitSeq: number | null = null): OrderedEvent[] {
    const target = page.nextSeq - 1;
    const known = this.#pendingUpTo(target, page.sandboxDenied);
    if (page.closed) insertClosed(known, page, target);
    for (const chunk of page.chunks) {
      const { seq } = chunk;
      if (seq > target)
        throw new InconsistentPageError(`output ${seq} is after the end of the page, ${target}`);
      if (seq > this.#lastSeq && !known.has(seq)) known.set(seq, { type: 'output', ...chunk });
    }
    const exitKnown = this.#exitSeen || [...this.#pending.values()].some((event) => event.type === 'exited');
    const exitedBefore = exitSeq !== null && exitSeq <= this.#startSeq;
    const missesExit = page.exited && !exitKnown && !exitedBefore;
    if (
      missesExit &&
      exitSeq !== null &&
      exitSeq > this.#lastSeq &&
      exitSeq <= target &&
      !known.has(exitSeq)
    ) {
      known.set(exitSeq, exitOf(page, exitSeq));
      return fillGaps([...known.values()], this.#lastSeq, target);
    }
    const events: OrderedEvent[] = fillGaps([...known.values()], this.#lastSeq, target);
    return missesExit ? placeExit(events, page) : events;
  }

  #sized(events: OrderedEvent[], position: ReadPosition | null): readonly OrderedEvent[] {
    return position === null ? events : withLostSizes(events, this.#positions, position.streamBytes);
  }

  #pendingUpTo(target: number, sandboxDenied: boolean): Map<number, SequencedEvent> {
    const known = new Map<number, SequencedEvent>();
    for (const [seq, event] of this.#pending) {
      if (seq > target) continue;
      const denied = event.type === 'exited' && sandboxDenied;
      known.set(seq, denied ? { ...event, sandboxDenied } : event);
    }
    return known;
  }

  #advance(event: OrderedEvent): void {
    this.#lastSeq = event.type === 'lost' ? event.toSeq : event.seq;
    if (event.type === 'exited') this.#exitSeen = true;
    movePast(this.#positions, event);
    if (event.type === 'closed') this.end();
    this.#publish(event);
  }

  #drain(): void {
    for (;;) {
      const next = this.#pending.get(this.#lastSeq + 1);
      if (next === undefined) return;
      this.#forget(next.seq);
      this.#advance(next);
    }
  }

  #forget(seq: number): void {
    const event = this.#pending.get(seq);
    if (event === undefined) return;
    this.#pending.delete(seq);
    this.#pendingBytes -= bytesOf(event);
  }
}

/** Sorts the events and inserts a `lost` event for each gap between `afterSeq` and `throughSeq`. */
export function fillGaps(
  events: readonly SequencedEvent[],
  afterSeq: number,
  throughSeq: number,
): OrderedEvent[] {
  const complete: OrderedEvent[] = [];
  let last = afterSeq;
  for (const event of events.toSorted((a, b) => a.seq - b.seq)) {
    if (event.seq > last + 1) complete.push(lost(last + 1, event.seq - 1));
    complete.push(event);
    last = event.seq;
  }
  if (last < throughSeq) complete.push(lost(last + 1, throughSeq));
  return complete;
}

function lost(fromSeq: number, toSeq: number): LostEvent {
  return { type: 'lost', fromSeq, toSeq, bytes: null, streamBytes: null };
}

function bytesOf(event: SequencedEvent): number {
  return event.type === 'output' ? event.bytes.length : 0;
}

/** The last sequence number of a closed process is its `closed` event. */
function insertClosed(known: Map<number, SequencedEvent>, page: ReadPage, target: number): void {
  const there = known.get(target);
  if ((there !== undefined && there.type !== 'closed') || page.chunks.some(({ seq }) => seq === target)) {
    throw new InconsistentPageError(`event ${target} is both the end of the process and another event`);
  }
  known.set(target, { type: 'closed', seq: target });
}

/**
 * Assigns an exit of unknown sequence number to the end of the last gap, for servers that do not report its number. They
 * evict the oldest output, and only processes that the program left behind write after the exit, so the exit is usually
 * there.
 */
function placeExit(events: OrderedEvent[], page: ReadPage): OrderedEvent[] {
  const index = events.findLastIndex((event) => event.type === 'lost');
  const gap = events[index];
  if (gap?.type !== 'lost')
    throw new InconsistentPageError('the process has exited, but no event is missing');
  const { toSeq: seq, fromSeq } = gap;
  const exited = exitOf(page, seq);
  return events.toSpliced(index, 1, ...(fromSeq < seq ? [lost(fromSeq, seq - 1), exited] : [exited]));
}

function exitOf({ exitCode, sandboxDenied, reason }: ReadPage, seq: number): SequencedEvent {
  if (exitCode === null) throw new InconsistentPageError('the process has exited without an exit code');
  return { type: 'exited', seq, exitCode, sandboxDenied, ...(reason && { reason }) };
}
