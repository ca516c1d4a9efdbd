import { REORDER_MAX_BYTES, REORDER_MAX_DISTANCE } from '../limits.ts';

/** What became of a record: next in line, kept for later, known already, or too far ahead to be kept. */
export type Placement = 'next' | 'early' | 'duplicate' | 'beyond';

/** Brings the records of one direction into order and drops those that come again. */
export class ReorderWindow {
  readonly #early = new Map<number, Uint8Array>();
  #earlyBytes = 0;
  #expected = 0;

  /** The number of the first record that is missing. */
  get expected(): number {
    return this.#expected;
  }

  /** Whether a record has arrived. */
  has(seq: number): boolean {
    return seq < this.#expected || this.#early.has(seq);
  }

  /** Takes a record in. One that is kept for later is copied: it may be a small part of a large buffer. */
  offer(seq: number, record: Uint8Array): Placement {
    if (this.has(seq)) return 'duplicate';
    if (seq === this.#expected) {
      this.#keep(seq, record);
      return 'next';
    }
    const tooFar = seq - this.#expected > REORDER_MAX_DISTANCE;
    if (tooFar || this.#earlyBytes + record.length > REORDER_MAX_BYTES) return 'beyond';
    this.#keep(seq, Buffer.from(record));
    return 'early';
  }

  /** The next record in order; null until it arrives. */
  take(): Uint8Array | null {
    const record = this.#early.get(this.#expected);
    if (record === undefined) return null;
    this.#early.delete(this.#expected);
    this.#earlyBytes -= record.length;
    this.#expected++;
    return record;
  }

  #keep(seq: number, record: Uint8Array): void {
    this.#early.set(seq, record);
    this.#earlyBytes += record.length;
  }
}
