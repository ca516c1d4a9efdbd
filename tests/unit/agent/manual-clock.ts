import { setImmediate as turn } from 'node:timers/promises';
import type { Clock } from '../../../src/agent/clock.ts';

/** A clock that only the test advances. */
export class ManualClock implements Clock {
  #now = 1_000;
  #timers: { readonly at: number; readonly callback: () => void }[] = [];

  now(): number {
    return this.#now;
  }

  epochMs(): number {
    return 1_700_000_000_000 + this.#now;
  }

  after(ms: number, callback: () => void): () => void {
    const timer = { at: this.#now + ms, callback };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer);
    };
  }

  /** Number of pending timers. */
  get timers(): number {
    return this.#timers.length;
  }

  /** Advances the time. Timers fire in order, and their effects happen before the next timer. */
  async advance(ms: number): Promise<void> {
    const until = this.#now + ms;
    await settled();
    for (;;) {
      const next = this.#timers.filter(({ at }) => at <= until).sort((one, other) => one.at - other.at)[0];
      if (next === undefined) break;
      this.#now = Math.max(this.#now, next.at);
      this.#timers = this.#timers.filter((other) => other !== next);
      next.callback();
      await settled();
    }
    this.#now = until;
    await settled();
  }
}

/** Runs all pending microtasks and immediates. */
export async function settled(): Promise<void> {
  for (let round = 0; round < 5; round++) await turn();
}
