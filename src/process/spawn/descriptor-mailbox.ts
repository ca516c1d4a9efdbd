import { closeSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import type { DescriptorPassing } from '../../native/descriptor-passing.ts';
import { DESCRIPTOR_DEADLINE_MS, DESCRIPTOR_POLL_MAX_MS } from '../limits.ts';

/** Receives open files from a process in its start. The process inherits `theirs`, sends the files with one byte and closes it. Used once. */
export class DescriptorMailbox {
  /** The process inherits this end. {@link receive} closes it here, so that the server notices when the process ends. */
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
   * Waits until the started process has sent exactly `count` descriptors. Rejects when it ends before that, on a timeout, and
   * when `signal` aborts. Polls, because Node cannot wait for such a message.
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
          throw new Error(`received ${descriptors.length} descriptors instead of ${count}`);
        }
        if (performance.now() > deadline) throw new Error('timed out while waiting for the descriptors');
        await delay(pauseMs, undefined, { signal });
      }
    } finally {
      closeSync(this.#ours);
    }
  }

  /** Closes both ends when the process was never started. */
  discard(): void {
    if (!this.#open) return;
    this.#open = false;
    closeSync(this.theirs);
    closeSync(this.#ours);
  }
}
