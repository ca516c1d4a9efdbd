import {
  FLOOD_GAP_MS,
  FLOOD_SMALL_READS,
  FULL_READ_BYTES,
  FULL_READS_PER_TURN_BYTES,
  SLOW_DELIVERY_MS,
  SMALL_READ_BYTES,
} from '../limits.ts';

/** What a reader does after a read: continue, let other streams be read, or pause for a millisecond so that more output collects. */
type Pace = 'continue' | 'yield' | 'pause';

/**
 * Limits the cost of a flood of output. Each of many small reads in quick succession costs as much as a large one, so the reader
 * pauses and then takes what has collected. Many large reads must not delay other processes. A reader that expects a reply does
 * not pause: the next output is probably the echo of a keystroke.
 */
export class ReadPacing {
  readonly #now: () => number;
  #smallReads = 0;
  /** Bytes of the full reads in a row. */
  #fullReadBytes = 0;
  #lastAt = 0;

  constructor(now: () => number) {
    this.#now = now;
  }

  /** A read is delivered. Returns when that began, for {@link afterRead}. */
  begin(): number {
    return this.#now();
  }

  /** Decides how to continue after a read of this many bytes. The delivery of a recorded program takes long. */
  afterRead(bytes: number, beganAt = this.#now()): Pace {
    if (bytes > SMALL_READ_BYTES && this.#now() - beganAt > SLOW_DELIVERY_MS) return 'yield';
    if (bytes >= FULL_READ_BYTES) return this.#afterFullRead(bytes);
    this.#fullReadBytes = 0;
    if (bytes > SMALL_READ_BYTES) return 'continue';
    const now = this.#now();
    this.#smallReads = now - this.#lastAt < FLOOD_GAP_MS ? this.#smallReads + 1 : 0;
    this.#lastAt = now;
    return this.#smallReads > FLOOD_SMALL_READS ? 'pause' : 'continue';
  }

  /** The next reads are not delayed. */
  expectReply(): void {
    this.#smallReads = 0;
  }

  #afterFullRead(bytes: number): Pace {
    this.#fullReadBytes += bytes;
    if (this.#fullReadBytes < FULL_READS_PER_TURN_BYTES) return 'continue';
    this.#fullReadBytes = 0;
    return 'yield';
  }
}
