import {
  FLOOD_GAP_MS,
  FLOOD_REST_MS,
  FLOOD_SMALL_READS,
  FULL_READS_PER_TURN,
  OUTPUT_READ_BYTES,
  SMALL_READ_BYTES,
} from '../limits.ts';

/** What a reader does after a piece: goes on, lets others have a turn, or rests for some milliseconds so that more gathers. */
type Pace = 'continue' | 'yield' | 'rest';

/**
 * Keeps a flood from costing more than it must. Many small pieces in quick succession are each as expensive as a large one, so
 * the reader rests for a moment and takes what has gathered; many large ones must not keep other processes waiting. A reader that
 * was told to expect an answer does not rest: that piece is the echo of a key stroke.
 */
export class ReadPacing {
  readonly #now: () => number;
  #smallReads = 0;
  #fullReads = 0;
  #lastAt = 0;

  constructor(now: () => number) {
    this.#now = now;
  }

  /** Judges a piece that was just read. */
  afterRead(bytes: number): Pace {
    if (bytes === OUTPUT_READ_BYTES) return this.#afterFullRead();
    this.#fullReads = 0;
    if (bytes > SMALL_READ_BYTES) return 'continue';
    const now = this.#now();
    this.#smallReads = now - this.#lastAt < FLOOD_GAP_MS ? this.#smallReads + 1 : 0;
    this.#lastAt = now;
    return this.#smallReads > FLOOD_SMALL_READS ? 'rest' : 'continue';
  }

  /** The next pieces are not held back. */
  expectAnswer(): void {
    this.#smallReads = 0;
  }

  #afterFullRead(): Pace {
    if (++this.#fullReads < FULL_READS_PER_TURN) return 'continue';
    this.#fullReads = 0;
    return 'yield';
  }
}

/** How long a rest lasts. */
export const REST_MS = FLOOD_REST_MS;
