import type { Terminal } from '@xterm/xterm';

/** What the terminal may have before a writer waits. */
const MAX_UNPARSED_BYTES = 64 * 1024;
/** What is kept while the page is hidden. */
const MAX_HELD_BYTES = 1024 * 1024;

/**
 * Writes to a terminal as fast as it parses. Browsers slow hidden pages down, and the program must not wait for that. So a hidden page
 * keeps the latest output, and writes it when it is visible again.
 */
export class WriteQueue {
  readonly #terminal: Terminal;
  readonly #onDropped: (bytes: number) => void;
  readonly #waiting = new Set<() => void>();
  readonly #visibilityChanged = () => (document.hidden ? this.#release() : this.#writeHeld());
  #unparsed = 0;
  #held: Uint8Array[] = [];
  #heldBytes = 0;
  #dropped = 0;

  /** `onDropped` is called with the size of output that was not kept. The terminal then needs a new screen. */
  constructor(terminal: Terminal, onDropped: (bytes: number) => void) {
    this.#terminal = terminal;
    this.#onDropped = onDropped;
    document.addEventListener('visibilitychange', this.#visibilityChanged);
  }

  write(data: Uint8Array | string): Promise<void> | void {
    const bytes = typeof data === 'string' ? new TextEncoder().encode(data) : data;
    if (document.hidden) {
      this.#hold(bytes);
      return;
    }
    this.#unparsed += bytes.length;
    this.#terminal.write(bytes, () => {
      this.#unparsed -= bytes.length;
      if (this.#unparsed < MAX_UNPARSED_BYTES / 2) this.#release();
    });
    if (this.#unparsed < MAX_UNPARSED_BYTES) return;
    return new Promise((resolve) => this.#waiting.add(resolve));
  }

  /** Drops what is kept, because a screen replaces it. */
  discard(): void {
    this.#held = [];
    this.#heldBytes = 0;
    this.#dropped = 0;
  }

  close(): void {
    document.removeEventListener('visibilitychange', this.#visibilityChanged);
    this.discard();
    this.#release();
  }

  #hold(bytes: Uint8Array): void {
    this.#held.push(bytes);
    this.#heldBytes += bytes.length;
    if (this.#heldBytes <= MAX_HELD_BYTES) return;
    this.#dropped += this.#heldBytes;
    this.#held = [];
    this.#heldBytes = 0;
  }

  #writeHeld(): void {
    const held = this.#held;
    const dropped = this.#dropped === 0 ? 0 : this.#dropped + this.#heldBytes;
    this.discard();
    if (dropped > 0) {
      this.#onDropped(dropped);
      return;
    }
    for (const bytes of held) this.#terminal.write(bytes);
  }

  #release(): void {
    for (const resolve of this.#waiting) resolve();
    this.#waiting.clear();
  }
}
