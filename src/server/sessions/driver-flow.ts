import { HELD_WINDOW_MAX_BYTES } from '../limits.ts';
import type { Follower } from './follower.ts';
import { OutputWindow } from './output-window.ts';

/**
 * Decides whether a program waits because its output is not used. It waits for the window of the client that drives it, and for the session
 * that output is held for.
 */
export class DriverFlow {
  /** The driver when the window began. */
  #driver: Follower | null = null;
  /** What the client of the driver has not used yet; null where it sets no limit. */
  #window: OutputWindow | null = null;
  /**
   * What the session has not used yet, over all its connections, so that it can be held. Nothing is held while an attached connection
   * drives. Null when nothing is held for the session either.
   */
  #held: OutputWindow | null;

  /** `heldBytes` is null when nothing is held. */
  constructor(heldBytes: number | null) {
    this.#held = heldBytes === null ? null : new OutputWindow(heldBytes);
  }

  get driver(): Follower | null {
    return this.#driver;
  }

  /** Whether there is output that is held for the session. */
  get holdsOutput(): boolean {
    return this.#held?.empty === false;
  }

  /**
   * Whether the program must wait for a report. A session whose window is larger than what can be held reports too rarely for that; the
   * program waits for its window only.
   */
  get isFull(): boolean {
    if (this.#window?.full) return true;
    const holds = (this.#driver?.windowBytes ?? 0) <= HELD_WINDOW_MAX_BYTES;
    return holds && (this.#held?.full ?? false);
  }

  /** Counts output. What an attached driver is sent is not held: only the session can resume. */
  output(seq: number, bytes: number, isAttachedDriver: boolean): void {
    this.#window?.output(seq, bytes);
    this.#held?.output(seq, bytes);
    if (isAttachedDriver) this.#held?.consumed(seq);
  }

  /** The client of the driver has used the events up to this one. */
  consumed(seq: number): void {
    this.#window?.consumed(seq);
    this.#held?.consumed(seq);
  }

  /** A client of the session, which does not report what it uses, asks for what comes after an event, or for the end: infinity. */
  requested(afterSeq: number): void {
    if (afterSeq === Number.POSITIVE_INFINITY) this.#held = null;
    else this.#held?.consumed(afterSeq);
  }

  /** What came up to this event is not held any longer. */
  forget(seq: number): void {
    this.#held?.consumed(seq);
  }

  /** From now on nothing is held. */
  stopHolding(): void {
    this.#held = null;
  }

  /** Begins a window for this driver, who has used all that came before. */
  restart(driver: Follower | null): void {
    this.#driver = driver;
    const windowBytes = driver?.windowBytes ?? null;
    this.#window = windowBytes === null ? null : new OutputWindow(windowBytes);
  }
}
