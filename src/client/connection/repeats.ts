import { MAX_REPEATS, MAX_SPOILT_REPEATS, SOON_LOST_MS } from '../limits.ts';
import type { LinkEnd } from './link.ts';

/** How often one call was lost together with its link, and whether it may be the reason. */
export class Repeats {
  #soonLost = 0;
  #spoilt = 0;

  /** Takes down a loss of a call that was sent at that time. False when it must not be sent again. */
  allowAfter(end: LinkEnd, sentAt: number): boolean {
    if (!end.repeatable) return false;
    if (performance.now() - sentAt >= SOON_LOST_MS) return true;
    this.#soonLost++;
    if (end.spoilt) this.#spoilt++;
    return this.#soonLost <= MAX_REPEATS && this.#spoilt <= MAX_SPOILT_REPEATS;
  }
}
