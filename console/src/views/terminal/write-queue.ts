import type { Terminal } from '@xterm/xterm';

/** What the terminal may have before a writer waits. */
const MAX_UNPARSED_BYTES = 64 * 1024;
/** What is kept while the page is hidden. */
const MAX_HELD_BYTES = 1024 * 1024;
/** How long the terminal may parse nothing after an error in the page. */
const STUCK_MS = 1000;

export interface WriteQueueEvents {
  /** Output of this size was not kept. The terminal needs a new screen. */
  onDropped(bytes: number): void;
  /** The terminal does not parse any more. */
  onStuck(): void;
}

/**
 * Writes to a terminal as fast as it parses. Browsers slow hidden pages down, and the program must not wait for that. So a hidden page
 * keeps the latest output, and writes it when it is visible again.
 */
export class WriteQueue {
  readonly #terminal: Terminal;
  readonly #events: WriteQueueEvents;
  readonly #waiting = new Set<() => void>();
  readonly #parsing = new Set<() => void>();
  readonly #visibilityChanged = () => (document.hidden ? this.#release() : this.#writeHeld());
  readonly #pageFailed = () => this.#watch();
  #unparsed = 0;
  /** How many writes the terminal has parsed. */
  #parsed = 0;
  #isStuck = false;
  #watchTimer: ReturnType<typeof setTimeout> | undefined;
  #held: Uint8Array[] = [];
  #heldBytes = 0;
  #dropped = 0;

  constructor(terminal: Terminal, events: WriteQueueEvents) {
    this.#terminal = terminal;
    this.#events = events;
    document.addEventListener('visibilitychange', this.#visibilityChanged);
    window.addEventListener('error', this.#pageFailed);
  }

  write(data: Uint8Array | string): Promise<void> | void {
    if (this.#isStuck) return;
    const bytes = typeof data === 'string' ? new TextEncoder().encode(data) : data;
    if (document.hidden) {
      this.#hold(bytes);
      return;
    }
    this.#unparsed += bytes.length;
    this.#terminal.write(bytes, () => {
      this.#unparsed -= bytes.length;
      this.#parsed++;
      if (this.#unparsed < MAX_UNPARSED_BYTES / 2) this.#release();
    });
    if (this.#unparsed < MAX_UNPARSED_BYTES) return;
    return new Promise((resolve) => this.#waiting.add(resolve));
  }

  /** Writes immediately, even on a hidden page. Resolves when the terminal has parsed the text, or has stopped parsing. */
  parse(text: string | Uint8Array): Promise<void> {
    if (this.#isStuck) return Promise.resolve();
    return new Promise((resolve) => {
      this.#parsing.add(resolve);
      this.#terminal.write(text, () => {
        this.#parsing.delete(resolve);
        this.#parsed++;
        resolve();
      });
    });
  }

  /** Drops what is kept, because a screen replaces it. */
  discard(): void {
    this.#held = [];
    this.#heldBytes = 0;
    this.#dropped = 0;
  }

  close(): void {
    document.removeEventListener('visibilitychange', this.#visibilityChanged);
    window.removeEventListener('error', this.#pageFailed);
    clearTimeout(this.#watchTimer);
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
      this.#events.onDropped(dropped);
      return;
    }
    for (const bytes of held) this.#terminal.write(bytes);
  }

  /** An error in its parser stops the terminal from parsing. This timer then ends all waits, so that the program can continue. */
  #watch(): void {
    const parsed = this.#parsed;
    clearTimeout(this.#watchTimer);
    this.#watchTimer = setTimeout(() => {
      if ((this.#unparsed === 0 && this.#parsing.size === 0) || this.#parsed > parsed) return;
      this.#isStuck = true;
      this.discard();
      this.#release();
      for (const resolve of this.#parsing) resolve();
      this.#events.onStuck();
    }, STUCK_MS);
  }

  #release(): void {
    for (const resolve of this.#waiting) resolve();
    this.#waiting.clear();
  }
}
