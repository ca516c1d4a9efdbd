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
  #tokens: number;
  #refilledAtMs: number;
  #accepting = true;
  #pause: NodeJS.Timeout | null = null;
  #open = true;

  constructor(perSecond: number, onChange: (open: boolean) => void, now: () => number = uptimeMs) {
    this.#perSecond = perSecond;
    this.#onChange = onChange;
    this.#now = now;
    this.#tokens = perSecond;
    this.#refilledAtMs = now();
  }

  /** Counts a message. Reads the clock only when one second's worth of messages is used up. */
  count(): void {
    this.#tokens--;
    if (this.#tokens < 0 && this.#pause === null) this.#refill();
  }

  /** Sets whether the handler of the messages accepts more. */
  setAccepting(accepting: boolean): void {
    this.#accepting = accepting;
    this.#update();
  }

  /** Stops the timer. No more messages will arrive. */
  stop(): void {
    if (this.#pause !== null) clearTimeout(this.#pause);
  }

  #refill(): void {
    const nowMs = this.#now();
    const earned = ((nowMs - this.#refilledAtMs) * this.#perSecond) / 1_000;
    this.#refilledAtMs = nowMs;
    this.#tokens = Math.min(this.#perSecond, this.#tokens + earned);
    if (this.#tokens < 0) this.#startPause((-this.#tokens * 1_000) / this.#perSecond);
  }

  #startPause(ms: number): void {
    this.#pause = setTimeout(
      () => {
        this.#pause = null;
        this.#refill();
        this.#update();
      },
      Math.max(MIN_RECEIVE_PAUSE_MS, ms),
    );
    this.#update();
  }

  #update(): void {
    const open = this.#accepting && this.#pause === null;
    if (open === this.#open) return;
    this.#open = open;
    this.#onChange(open);
  }
}
