import { MISSING_EVENT_DELAY_MS, QUIET_CHECK_MAX_MS } from '../limits.ts';
import type { EventOrder } from './event-order.ts';
import { maySucceedLater } from './retained-output.ts';

/** What is missed, and how to read it. */
interface MissedEventsOptions {
  /** A number that grows with every event. */
  revision(): number;
  /** Reads the missed events. With `allowGaps`, those that are gone are reported as lost. */
  read(allowGaps: boolean): Promise<void>;
  /** The events can no longer be read. */
  failed(error: unknown): void;
}

/** Decides when to read the events of one process that did not arrive. Sends one request at a time. */
export class MissedEvents {
  readonly #order: EventOrder;
  readonly #with: MissedEventsOptions;
  #missingTimer: ReturnType<typeof setTimeout> | undefined;
  #quietTimer: ReturnType<typeof setTimeout> | undefined;
  #isReading = false;

  constructor(order: EventOrder, options: MissedEventsOptions) {
    this.#order = order;
    this.#with = options;
  }

  /** Reads them now. Repeats as long as events are missing. */
  async readNow(allowGaps = true): Promise<void> {
    if (this.#isReading) return;
    this.#isReading = true;
    try {
      await this.#with.read(allowGaps);
    } catch (error) {
      // A lost connection leads to a recovery, which catches up by itself.
      if (!maySucceedLater(error)) this.#with.failed(error);
    }
    this.#isReading = false;
    this.readSoon();
  }

  /** Reads the events that are missing before one that has arrived, unless they arrive soon. */
  readSoon(): void {
    if (!this.#order.waiting) return;
    this.#missingTimer ??= setTimeout(() => {
      this.#missingTimer = undefined;
      if (this.#order.waiting) void this.readNow();
    }, MISSING_EVENT_DELAY_MS);
  }

  /**
   * Checks a silent process: while no event arrives, none reveals that the one before is missing. Gaps are not
   * reported as lost here, because events may still be on their way.
   */
  watchQuiet(firstMs: number, ms = firstMs): void {
    clearTimeout(this.#quietTimer);
    const before = this.#with.revision();
    this.#quietTimer = setTimeout(() => {
      const quiet = this.#with.revision() === before;
      if (quiet) void this.readNow(false);
      this.watchQuiet(firstMs, quiet ? Math.min(ms * 2, QUIET_CHECK_MAX_MS) : firstMs);
    }, ms);
    // In a browser a timer is a number.
    this.#quietTimer.unref?.();
  }

  stop(): void {
    clearTimeout(this.#missingTimer);
    clearTimeout(this.#quietTimer);
  }
}
