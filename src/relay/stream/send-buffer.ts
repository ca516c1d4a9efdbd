import { RelayError } from '../errors.ts';
import type { Segment } from '../frames/frame.ts';
import { MAX_UNACKNOWLEDGED_BYTES, MAX_UNACKNOWLEDGED_RECORDS } from '../limits.ts';

/** An encrypted record. A retransmission sends the same bytes with the same segment. */
export interface SentRecord {
  readonly seq: number;
  readonly payload: Uint8Array;
  readonly segment: Segment | undefined;
  /** The peer has this record, but not all before it. */
  received: boolean;
  /** The record was retransmitted since the last timeout. */
  retransmitted: boolean;
}

/** Number of records after the acknowledged one that the bits of an ack cover. */
export const ACK_BITS = 32;

/** Keeps unacknowledged records and selects those to retransmit. */
export class SendBuffer {
  #records: SentRecord[] = [];
  #bytes = 0;
  /** Sequence number of the next new record. */
  #nextSeq = 0;
  readonly #retransmits = new Set<number>();
  /** Last record in flight at a timeout. Until it is acknowledged, each ack doubles the number of retransmitted records. */
  #recoverUntil: number | null = null;
  #burst = 1;

  get empty(): boolean {
    return this.#records.length === 0;
  }

  /** Whether the send window is full. */
  get full(): boolean {
    return this.#records.length >= MAX_UNACKNOWLEDGED_RECORDS || this.#bytes >= MAX_UNACKNOWLEDGED_BYTES;
  }

  /** Keeps the next record. */
  add(payload: Uint8Array, segment?: Segment): void {
    this.#records.push({ seq: this.#nextSeq++, payload, segment, received: false, retransmitted: false });
    this.#bytes += payload.length;
  }

  /**
   * Applies an ack: all records up to `ack`, and the later ones whose bit is set. Missing records between them are retransmitted.
   * Returns true when it removes a record. Throws RelayError when it acknowledges a record that was never sent.
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
    this.#retransmit(this.#records.filter(({ seq }) => seq < highest));
    if (progress && this.#recoverUntil !== null) this.#recoverFurther(ack, this.#recoverUntil);
    return progress;
  }

  /**
   * Retransmits from this record on, because the peer resumes there. Acknowledged records are not resent: a frame that asks for them
   * is outdated. Throws RelayError when the record was never sent.
   */
  resumeAt(nextSeq: number): void {
    this.#forgetBefore(nextSeq);
    this.#recoverUntil = null;
    for (const record of this.#records) {
      record.received = false;
      record.retransmitted = false;
    }
    this.#retransmit(this.#records);
  }

  /** Handles a missing ack: retransmits the first missing record, or else the first record, so that the peer sends an ack. */
  timedOut(): void {
    for (const record of this.#records) record.retransmitted = false;
    const first = this.#records.find(({ received }) => !received) ?? this.#records[0];
    if (first === undefined) return;
    this.#retransmits.add(first.seq);
    first.retransmitted = true;
    this.#recoverUntil = this.#nextSeq - 1;
    this.#burst = 1;
  }

  /** Returns the next record to retransmit. */
  takeRetransmit(): SentRecord | null {
    for (const seq of this.#retransmits) {
      this.#retransmits.delete(seq);
      const record = this.#recordAt(seq);
      if (record !== undefined) return record;
    }
    return null;
  }

  #recoverFurther(ack: number, recoverUntil: number): void {
    if (ack >= recoverUntil) {
      this.#recoverUntil = null;
      return;
    }
    this.#burst *= 2;
    this.#retransmit(this.#records.filter(({ seq }) => seq <= recoverUntil).slice(0, this.#burst));
  }

  #retransmit(records: readonly SentRecord[]): void {
    for (const record of records) {
      if (record.received || record.retransmitted) continue;
      record.retransmitted = true;
      this.#retransmits.add(record.seq);
    }
  }

  #forgetBefore(seq: number): boolean {
    if (seq > this.#nextSeq)
      throw new RelayError('protocol', 'the peer acknowledged a record that was never sent');
    const count = this.#records.findIndex((record) => record.seq >= seq);
    const done = this.#records.splice(0, count === -1 ? this.#records.length : count);
    for (const { payload } of done) this.#bytes -= payload.length;
    return done.length > 0;
  }

  #recordAt(seq: number): SentRecord | undefined {
    return this.#records[seq - (this.#records[0]?.seq ?? 0)];
  }
}
