import { isUtf8 } from 'node:buffer';
import type { ByteBudget } from '../../base/byte-budget.ts';
import { RelayError } from '../errors.ts';
import type { DataBody } from '../frames/frame.ts';
import {
  MAX_QUEUED_MESSAGES,
  MAX_STREAM_INBOUND_BYTES,
  REORDER_MAX_BYTES,
  REORDER_MAX_DISTANCE,
} from '../limits.ts';
import type { RecordCipher } from '../noise/record-cipher.ts';
import { MessageAssembler, SegmentCheck } from './message-framing.ts';

/** Position of a received record: the next one, early and kept, a duplicate, or too far ahead to keep. */
export type Placement = 'next' | 'early' | 'duplicate' | 'beyond';

/** A message and the sequence number of the record that completed it. */
interface QueuedMessage {
  readonly seq: number;
  readonly bytes: Buffer;
}

/** Turns the records of a peer into messages: reorders, decrypts and joins them. Queues messages while the reader is paused. */
export class InboundMessages {
  readonly #cipher: RecordCipher;
  readonly #budget: ByteBudget;
  readonly #window = new ReorderWindow();
  readonly #assembler = new MessageAssembler();
  readonly #segments = new SegmentCheck();
  readonly #queue: QueuedMessage[] = [];
  #queuedBytes = 0;
  #chargedBytes = 0;
  #reader: ((message: Buffer) => void) | null = null;
  #receiving = true;
  #stopped = false;

  constructor(cipher: RecordCipher, budget: ByteBudget) {
    this.#cipher = cipher;
    this.#budget = budget;
  }

  /** Count of consumed records: all before the record that completes the first queued message. */
  get consumed(): number {
    return this.#queue[0]?.seq ?? this.#window.expected;
  }

  /** Whether the peer has sent a segmented message. */
  get peerSegments(): boolean {
    return this.#segments.used;
  }

  /** Whether a record has arrived. */
  has(seq: number): boolean {
    return this.#window.has(seq);
  }

  open(reader: (message: Buffer) => void): void {
    this.#reader = reader;
    this.#deliver();
    this.#charge();
  }

  setReceiving(receiving: boolean): void {
    this.#receiving = receiving;
    this.#deliver();
    this.#charge();
  }

  /**
   * Accepts a record and the early records after it. Throws RelayError for a record that is not authentic, that breaks the framing, or
   * that exceeds the limits of queued messages.
   */
  accept(record: DataBody): Placement {
    const placement = this.#window.offer(record);
    if (placement !== 'next') return placement;
    for (let next = this.#window.take(); next !== null && !this.#stopped; next = this.#window.take()) {
      this.#open(next);
      this.#deliver();
      this.#checkLimits();
    }
    return placement;
  }

  /** Stops delivery and discards queued messages. */
  stop(): void {
    this.#stopped = true;
    this.#queue.length = 0;
    this.#charge();
  }

  #open({ seq, payload, segment }: DataBody): void {
    const plaintext = this.#cipher.open(payload);
    this.#segments.before(seq, segment, this.#assembler.idle);
    let messages = 0;
    for (const bytes of this.#assembler.push(plaintext)) {
      if (!isUtf8(bytes)) throw new RelayError('protocol', 'a message is not valid UTF-8');
      messages++;
      this.#queue.push({ seq, bytes });
      this.#queuedBytes += bytes.length;
    }
    this.#segments.after(seq, messages, this.#assembler.idle);
  }

  #deliver(): void {
    while (this.#reader !== null && this.#receiving && !this.#stopped) {
      const message = this.#queue.shift();
      if (message === undefined) return;
      this.#queuedBytes -= message.bytes.length;
      this.#reader(message.bytes);
    }
  }

  #checkLimits(): void {
    if (this.#queue.length > MAX_QUEUED_MESSAGES) {
      throw new RelayError('protocol', `more than ${MAX_QUEUED_MESSAGES} messages are queued`);
    }
    const withinBudget = this.#charge();
    if (this.#chargedBytes > MAX_STREAM_INBOUND_BYTES || !withinBudget) {
      throw new RelayError('protocol', 'queued messages exceed the memory limit');
    }
  }

  /** Updates the budget with the bytes held now. Returns false when the budget is exceeded. */
  #charge(): boolean {
    const held = this.#stopped ? 0 : this.#queuedBytes + this.#assembler.heldBytes;
    const change = held - this.#chargedBytes;
    this.#chargedBytes = held;
    this.#budget.add(change);
    return !this.#budget.exceeded;
  }
}

/** Reorders the records of one direction and drops duplicates. */
export class ReorderWindow {
  readonly #early = new Map<number, DataBody>();
  #earlyBytes = 0;
  #expected = 0;

  /** Sequence number of the first missing record. */
  get expected(): number {
    return this.#expected;
  }

  /** Whether a record has arrived. */
  has(seq: number): boolean {
    return seq < this.#expected || this.#early.has(seq);
  }

  /** Accepts a record. Copies an early one, because it may be a small view of a large buffer. */
  offer(record: DataBody): Placement {
    const { seq, payload } = record;
    if (this.has(seq)) return 'duplicate';
    if (seq === this.#expected) {
      this.#keep(record);
      return 'next';
    }
    const tooFar = seq - this.#expected > REORDER_MAX_DISTANCE;
    if (tooFar || this.#earlyBytes + payload.length > REORDER_MAX_BYTES) return 'beyond';
    this.#keep({ ...record, payload: Buffer.from(payload) });
    return 'early';
  }

  /** Returns the next record in order, or null until it arrives. */
  take(): DataBody | null {
    const record = this.#early.get(this.#expected);
    if (record === undefined) return null;
    this.#early.delete(this.#expected);
    this.#earlyBytes -= record.payload.length;
    this.#expected++;
    return record;
  }

  #keep(record: DataBody): void {
    this.#early.set(record.seq, record);
    this.#earlyBytes += record.payload.length;
  }
}
