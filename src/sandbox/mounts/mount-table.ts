import { closeSync, openSync } from 'node:fs';
import type { SandboxCalls } from '../../process/spawn/spawner.ts';
import { MOUNT_TABLE } from './kernel-mounts.ts';

/**
 * Detects changes of this process's mount table. Mounts and unmounts on the host propagate into existing sandboxes. A new mount appears
 * there as it is on the host, for example writable where the sandbox is read-only.
 */
export class MountTable {
  readonly #calls: Pick<SandboxCalls, 'hasChanged'>;
  #fd: number | null = null;
  #version = 0;

  constructor(calls: Pick<SandboxCalls, 'hasChanged'>) {
    this.#calls = calls;
  }

  /** Starts watching. Returns false when the mount table cannot be opened. */
  watch(): boolean {
    try {
      this.#fd ??= openSync(MOUNT_TABLE, 'r');
      return true;
    } catch {
      return false;
    }
  }

  /** Whether the table has changed since the last call, or since `watch`. True when it is not watched. */
  changed(): boolean {
    return this.#fd === null || this.#calls.hasChanged(this.#fd);
  }

  /** A number that is greater after each change, and always when the table cannot be watched. */
  version(): number {
    if (this.#fd === null) this.watch();
    else if (!this.changed()) return this.#version;
    return ++this.#version;
  }

  /** Stops watching. */
  unwatch(): void {
    if (this.#fd !== null) closeSync(this.#fd);
    this.#fd = null;
  }
}
