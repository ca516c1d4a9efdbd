/** A number of bytes that several files share. */
export class Budget {
  readonly #limit: number;
  readonly #owner: string;
  #used = 0;

  /** `owner` names in warnings what would become too large. */
  constructor(limit: number, owner: string) {
    this.#limit = limit;
    this.#owner = owner;
  }

  /** Why the bytes do not fit; null when they do. */
  objection(bytes: number): string | null {
    return bytes > this.#limit - this.#used ? `${this.#owner} exceeds the ${this.#limit}-byte limit` : null;
  }

  use(bytes: number): void {
    this.#used += bytes;
  }
}
