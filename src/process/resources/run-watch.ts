import { MAX_TIMER_MS } from '../limits.ts';
import type { LimitReason, RunLimits } from './resource-limits.ts';

/** Watches the time, the silence and the amount of output of one program and says once which of them was too much. */
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

  /** Begins to count; silence only while the output is read. */
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

  /** Counts output and returns how many of its bytes may pass. */
  output(bytes: number): number {
    const { idleMs, outputBytes } = this.#limits;
    if (idleMs !== null) this.#lastSign = performance.now();
    if (outputBytes === null) return bytes;
    const room = outputBytes - this.#outputBytes;
    this.#outputBytes += bytes;
    if (bytes > room) this.#exceeded('outputLimit');
    return Math.max(0, Math.min(bytes, room));
  }

  /** Ends the watch without a breach. */
  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#wall);
    clearTimeout(this.#idle);
  }

  /** One timer serves however much is written: when it fires early, it is set for the rest. */
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
