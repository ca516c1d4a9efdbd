import { closeSync, openSync } from 'node:fs';
import type { SandboxCalls } from '../../process/spawn/spawner.ts';

/**
 * What is mounted where this process runs. A sandbox that has been built hears of each mount and unmount outside, as far as it is not
 * its own, and shows a new one as it is outside: writable, for one, where everything else is not.
 */
export class MountTable {
  readonly #calls: Pick<SandboxCalls, 'hasChanged'>;
  #fd: number | null = null;

  constructor(calls: Pick<SandboxCalls, 'hasChanged'>) {
    this.#calls = calls;
  }

  /** Begins to look for changes, if it has not begun; false when it cannot. */
  watch(): boolean {
    try {
      this.#fd ??= openSync('/proc/self/mountinfo', 'r');
      return true;
    } catch {
      return false;
    }
  }

  /** Whether anything was mounted or unmounted since this was asked the last time, or since it is watched. */
  changed(): boolean {
    return this.#fd === null || this.#calls.hasChanged(this.#fd);
  }

  /** Looks for changes no more. */
  ignore(): void {
    if (this.#fd !== null) closeSync(this.#fd);
    this.#fd = null;
  }
}
