import { MAX_TIMER_MS } from '../limits.ts';
import type { LimitReason, RunLimits } from './resource-limits.ts';

/** Watches the running time, the time without output and the amount of output of one program. Reports once which limit was exceeded. */
export class RunWatch {
  readonly #limits: RunLimits;
  readonly #onBreach: (reason: LimitReason) => void;
  #outputBytes = 0;
  #lastSign = 0;
  #wall: NodeJS.Timeout | undefined;
  #idle: NodeJS.Timeout | undefined;
  #reason: LimitReason | null = null;
  #stopped = false;

  constructor(limits: RunLimits, onBreach: (reason: LimitReason) => void) {
    this.#limits = limits;
    this.#onBreach = onBreach;
  }

  /** The limit that was exceeded, if any. */
  get reason(): LimitReason | null {
    return this.#reason;
  }

  /** Starts the timers. Time without output counts only while the output is read. */
  begin(reading: boolean): void {
    const { wallMs } = this.#limits;
    if (wallMs !== null) {
      this.#wall = setTimeout(() => this.#exceeded('timeout'), Math.min(wallMs, MAX_TIMER_MS));
    }
    this.setReading(reading);
  }

  setReading(reading: boolean): void {
    clearTimeout(this.#idle);
    if (!reading || this.#stopped || this.#limits.idleMs === null) return;
    this.#lastSign = performance.now();
    this.#waitForSilence(this.#limits.idleMs);
  }

  /** Counts output and returns how many of its bytes to deliver. */
  output(bytes: number): number {
    const { idleMs, outputBytes } = this.#limits;
    if (idleMs !== null) this.#lastSign = performance.now();
    if (outputBytes === null) return bytes;
    const left = outputBytes - this.#outputBytes;
    this.#outputBytes += bytes;
    if (bytes > left) this.#exceeded('outputLimit');
    return Math.max(0, Math.min(bytes, left));
  }

  /** Stops all timers. */
  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#wall);
    clearTimeout(this.#idle);
  }

  /** One timer serves any number of writes: when it fires too early, it is set again for the remaining time. */
  #waitForSilence(ms: number): void {
    this.#idle = setTimeout(
      () => {
        const left = this.#lastSign + this.#limits.idleMs! - performance.now();
        if (left <= 0) this.#exceeded('idle');
        else this.#waitForSilence(left);
      },
      Math.min(Math.ceil(ms), MAX_TIMER_MS),
    );
  }

  #exceeded(reason: LimitReason): void {
    if (this.#stopped) return;
    this.stop();
    this.#reason = reason;
    this.#onBreach(reason);
  }
}
