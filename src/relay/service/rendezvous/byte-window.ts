/** Counts bytes that wait somewhere. It is full from its limit on, until half of them are gone: small steps do not open and close it. */
export class ByteWindow {
  readonly #limit: number;
  readonly #changed: (full: boolean) => void;
  #bytes = 0;
  #full = false;

  /** `changed` is told whenever the window becomes full, or is no longer. */
  constructor(limit: number, changed: (full: boolean) => void) {
    this.#limit = limit;
    this.#changed = changed;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get full(): boolean {
    return this.#full;
  }

  add(bytes: number): void {
    this.#bytes += bytes;
    if (this.#full || this.#bytes < this.#limit) return;
    this.#full = true;
    this.#changed(true);
  }

  remove(bytes: number): void {
    this.#bytes -= bytes;
    if (!this.#full || this.#bytes > this.#limit / 2) return;
    this.#full = false;
    this.#changed(false);
  }
}
