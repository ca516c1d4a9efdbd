import { uptimeMs } from '../base/uptime.ts';
import { MIN_RECEIVE_PAUSE_MS } from './limits.ts';

/**
 * Decides when a peer is read from: while there is room for what it sends, and as long as it keeps to its rate on average over a
 * second. A peer that is not read from feels a slow connection; nothing it sent is lost.
 */
export class ReceiveLimiter {
  readonly #perSecond: number;
  readonly #onChange: (open: boolean) => void;
  readonly #now: () => number;
  #left: number;
  #filledAtMs: number;
  #room = true;
  #resting: NodeJS.Timeout | null = null;
  #open = true;

  constructor(perSecond: number, onChange: (open: boolean) => void, now: () => number = uptimeMs) {
    this.#perSecond = perSecond;
    this.#onChange = onChange;
    this.#now = now;
    this.#left = perSecond;
    this.#filledAtMs = now();
  }

  /** Takes note of a message. The clock is looked at only when a second's worth of them has been used up. */
  count(): void {
    this.#left--;
    if (this.#left < 0 && this.#resting === null) this.#refill();
  }

  /** Whether whoever handles the messages takes more. */
  setRoom(room: boolean): void {
    this.#room = room;
    this.#update();
  }

  /** Nothing more will come. */
  stop(): void {
    if (this.#resting !== null) clearTimeout(this.#resting);
  }

  #refill(): void {
    const nowMs = this.#now();
    const earned = ((nowMs - this.#filledAtMs) * this.#perSecond) / 1_000;
    this.#filledAtMs = nowMs;
    this.#left = Math.min(this.#perSecond, this.#left + earned);
    if (this.#left < 0) this.#rest((-this.#left * 1_000) / this.#perSecond);
  }

  #rest(ms: number): void {
    this.#resting = setTimeout(
      () => {
        this.#resting = null;
        this.#refill();
        this.#update();
      },
      Math.max(MIN_RECEIVE_PAUSE_MS, ms),
    );
    this.#update();
  }

  #update(): void {
    const open = this.#room && this.#resting === null;
    if (open === this.#open) return;
    this.#open = open;
    this.#onChange(open);
  }
}
