/**
 * Counts bytes that one or more holders keep. It is full from its limit on, until at most half of the limit is left: small changes
 * do not make it alternate.
 */
export class ByteBudget {
  readonly #limit: number;
  readonly #onChange: (full: boolean) => void;
  #bytes = 0;
  #full = false;

  /** Calls `onChange` when the budget becomes full and when it no longer is. */
  constructor(limit: number, onChange: (full: boolean) => void = () => {}) {
    this.#limit = limit;
    this.#onChange = onChange;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get full(): boolean {
    return this.#full;
  }

  /** Whether the holders keep more than the limit. */
  get exceeded(): boolean {
    return this.#bytes > this.#limit;
  }

  /** Counts bytes that a holder keeps from now on; a negative number for bytes that it no longer keeps. */
  add(bytes: number): void {
    this.#bytes += bytes;
    const full = this.#full ? this.#bytes > this.#limit / 2 : this.#bytes >= this.#limit;
    if (full === this.#full) return;
    this.#full = full;
    this.#onChange(full);
  }

  remove(bytes: number): void {
    this.add(-bytes);
  }
}
