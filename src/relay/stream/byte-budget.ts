/** Bytes that several holders may keep together. */
export class ByteBudget {
  readonly #max: number;
  #used = 0;

  constructor(max: number) {
    this.#max = max;
  }

  /** Takes note that a holder keeps so many bytes more, or fewer. False when all of them together keep too much. */
  change(bytes: number): boolean {
    this.#used += bytes;
    return this.#used <= this.#max;
  }
}
