import type { LostEvent } from '../../client/backend.ts';

/** Counts the output that a command should have shown and could not. */
export class OutputLosses {
  readonly #firstSeq: number;
  /** Null where the server did not say how much. */
  #bytes: number | null = 0;

  /** What was lost before this event is not counted: it was gone when the command began. */
  constructor(firstSeq = 1) {
    this.#firstSeq = firstSeq;
  }

  add({ toSeq, bytes }: LostEvent): void {
    if (toSeq < this.#firstSeq) return;
    this.#bytes = bytes === null || this.#bytes === null ? null : this.#bytes + bytes;
  }

  /** What is missing, in words; null when nothing is. */
  get text(): string | null {
    return this.#bytes === 0 ? null : `${this.#bytes ?? 'some'} bytes of its output are lost`;
  }
}
