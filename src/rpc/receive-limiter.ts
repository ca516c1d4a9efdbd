import { uptimeMs } from '../base/uptime.ts';
import { MIN_RECEIVE_PAUSE_MS } from './limits.ts';

/**
 * Pauses reading from a peer while its messages cannot be handled, or while it exceeds its average rate over one
 * second. The peer sees a slow connection; no message is lost.
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

  /** Counts a message. Reads the clock only when one second's worth of messages is used up. */
  count(): void {
    this.#left--;
    if (this.#left < 0 && this.#resting === null) this.#refill();
  }

  /** Sets whether the handler of the messages accepts more. */
  setRoom(room: boolean): void {
    this.#room = room;
    this.#update();
  }

  /** Stops the timer. No more messages will arrive. */
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
