import { RelayError } from '../errors.ts';
import { MAX_UNACKNOWLEDGED_BYTES, MAX_UNACKNOWLEDGED_RECORDS } from '../limits.ts';

/** A record as it was encrypted: sent again it is the same bytes. */
export interface SentRecord {
  readonly seq: number;
  readonly payload: Uint8Array;
  /** The peer has it, but not all before it. */
  received: boolean;
  /** It was sent again since the last timeout. */
  repeated: boolean;
}

/** How many records after the acknowledged one the bits of an ack tell of. */
export const ACK_BITS = 32;

/** Records without ack, and which of them are to be sent again. */
export class SendBuffer {
  #records: SentRecord[] = [];
  #bytes = 0;
  /** Number of the next new record. */
  #nextSeq = 0;
  readonly #repeats = new Set<number>();
  /** Last record that was on its way at a timeout; while acks come for those before it, ever more of them are repeated. */
  #recoverTo: number | null = null;
  #burst = 1;

  get empty(): boolean {
    return this.#records.length === 0;
  }

  /** Whether no further record may be sent before one is acknowledged. */
  get full(): boolean {
    return this.#records.length >= MAX_UNACKNOWLEDGED_RECORDS || this.#bytes >= MAX_UNACKNOWLEDGED_BYTES;
  }

  /** Keeps the next record. */
  add(payload: Uint8Array): void {
    this.#records.push({ seq: this.#nextSeq++, payload, received: false, repeated: false });
    this.#bytes += payload.length;
  }

  /**
   * Takes an ack: all up to `ack`, and those behind it whose bit is set. What is missing between them is sent again. True when it
   * is news that a record is done with. Throws RelayError when it acknowledges what was never sent.
   */
  acknowledge(ack: number, bits: number): boolean {
    const progress = this.#forgetBefore(ack + 1);
    let highest = ack;
    for (let index = 0; index < ACK_BITS; index++) {
      const record = (bits >>> index) & 1 ? this.#recordAt(ack + 1 + index) : undefined;
      if (record === undefined) continue;
      record.received = true;
      highest = record.seq;
    }
    this.#repeat(this.#records.filter(({ seq }) => seq < highest));
    if (progress && this.#recoverTo !== null) this.#recoverFurther(ack, this.#recoverTo);
    return progress;
  }

  /**
   * The peer goes on with this record: it and all behind it are sent again. What it has acknowledged it has; a frame that says
   * otherwise is an old one. Throws RelayError when the record lies behind all that were sent.
   */
  resumeAt(nextSeq: number): void {
    this.#forgetBefore(nextSeq);
    this.#recoverTo = null;
    for (const record of this.#records) {
      record.received = false;
      record.repeated = false;
    }
    this.#repeat(this.#records);
  }

  /** No ack came in time. Repeats the first record that is missing; if none is known to be, the first, which the peer answers. */
  timedOut(): void {
    for (const record of this.#records) record.repeated = false;
    const first = this.#records.find(({ received }) => !received) ?? this.#records[0];
    if (first === undefined) return;
    this.#repeats.add(first.seq);
    first.repeated = true;
    this.#recoverTo = this.#nextSeq - 1;
    this.#burst = 1;
  }

  /** The next record that is to be sent again. */
  takeRepeat(): SentRecord | null {
    for (const seq of this.#repeats) {
      this.#repeats.delete(seq);
      const record = this.#recordAt(seq);
      if (record !== undefined) return record;
    }
    return null;
  }

  #recoverFurther(ack: number, recoverTo: number): void {
    if (ack >= recoverTo) {
      this.#recoverTo = null;
      return;
    }
    this.#burst *= 2;
    this.#repeat(this.#records.filter(({ seq }) => seq <= recoverTo).slice(0, this.#burst));
  }

  #repeat(records: readonly SentRecord[]): void {
    for (const record of records) {
      if (record.received || record.repeated) continue;
      record.repeated = true;
      this.#repeats.add(record.seq);
    }
  }

  #forgetBefore(seq: number): boolean {
    if (seq > this.#nextSeq) throw new RelayError('protocol', 'the peer acknowledges what was never sent');
    const count = this.#records.findIndex((record) => record.seq >= seq);
    const done = this.#records.splice(0, count === -1 ? this.#records.length : count);
    for (const { payload } of done) this.#bytes -= payload.length;
    return done.length > 0;
  }

  #recordAt(seq: number): SentRecord | undefined {
    return this.#records[seq - (this.#records[0]?.seq ?? 0)];
  }
}
