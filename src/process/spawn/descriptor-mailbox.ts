import { closeSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import type { DescriptorPassing } from '../../native/descriptor-passing.ts';
import { DESCRIPTOR_DEADLINE_MS, DESCRIPTOR_POLL_MAX_MS } from '../limits.ts';

/**
 * Gets open files from a process that is being started: it inherits `theirs`, sends them with one byte, and closes it. Used once.
 */
export class DescriptorMailbox {
  /** For the process to inherit; {@link receive} closes it here, so that the end of the process is noticed. */
  readonly theirs: number;
  readonly #passing: DescriptorPassing;
  readonly #ours: number;
  #open = true;

  constructor(passing: DescriptorPassing) {
    const { ours, theirs } = passing.createPair();
    this.#passing = passing;
    this.#ours = ours;
    this.theirs = theirs;
  }

  /**
   * Waits until the process, which has been started, has sent exactly so many descriptors. Rejects when it ends before, when it
   * takes too long, and when the signal is aborted. It looks again and again, because Node cannot wait for such a message.
   */
  async receive(count: number, signal: AbortSignal): Promise<number[]> {
    closeSync(this.theirs);
    this.#open = false;
    const deadline = performance.now() + DESCRIPTOR_DEADLINE_MS;
    try {
      for (let pauseMs = 1; ; pauseMs = Math.min(2 * pauseMs, DESCRIPTOR_POLL_MAX_MS)) {
        const descriptors = this.#passing.receive(this.#ours, count);
        if (descriptors?.length === count) return descriptors;
        if (descriptors !== null) {
          for (const descriptor of descriptors) closeSync(descriptor);
          throw new Error(`${descriptors.length} descriptors came instead of ${count}`);
        }
        if (performance.now() > deadline) throw new Error('the descriptors did not come in time');
        await delay(pauseMs, undefined, { signal });
      }
    } finally {
      closeSync(this.#ours);
    }
  }

  /** For a process that was never started. */
  discard(): void {
    if (!this.#open) return;
    this.#open = false;
    closeSync(this.theirs);
    closeSync(this.#ours);
  }
}
