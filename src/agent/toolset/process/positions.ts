import type { Position } from './cursor.ts';

/** Where the output of each process was read to, so that calls without a cursor continue there. */
export class Positions {
  readonly #max: number;
  /** In least recently used order. */
  readonly #positions = new Map<string, Position>();

  constructor(max: number) {
    this.#max = max;
  }

  get(environment: string, ref: string): Position | undefined {
    return this.#positions.get(keyOf(environment, ref));
  }

  set(environment: string, ref: string, position: Position): void {
    const key = keyOf(environment, ref);
    this.#positions.delete(key);
    this.#positions.set(key, position);
    if (this.#positions.size > this.#max) this.#positions.delete(this.#positions.keys().next().value!);
  }
}

function keyOf(environment: string, ref: string): string {
  return `${environment}\n${ref}`;
}
