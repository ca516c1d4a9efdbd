import { isUtf8 } from 'node:buffer';
import type { ByteBudget } from '../../base/byte-budget.ts';
import { RelayError } from '../errors.ts';
import { MAX_QUEUED_MESSAGES, MAX_STREAM_INBOUND_BYTES } from '../limits.ts';
import type { RecordCipher } from '../noise/record-cipher.ts';
import { MessageAssembler } from './message-assembler.ts';
import { type Placement, ReorderWindow } from './reorder-window.ts';

/** A message, and the record that completed it. */
interface QueuedMessage {
  readonly seq: number;
  readonly bytes: Buffer;
}

/** Turns the records of a peer into messages: puts them in order, decrypts them, joins them, and keeps them for a reader that pauses. */
export class InboundMessages {
  readonly #cipher: RecordCipher;
  readonly #budget: ByteBudget;
  readonly #window = new ReorderWindow();
  readonly #assembler = new MessageAssembler();
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

  /** Records that are done with: all before the one that completes the first message which waits for its reader. */
  get consumed(): number {
    return this.#queue[0]?.seq ?? this.#window.expected;
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
   * Takes a record in, and all that waited for it. Throws RelayError when one is not what the peer sealed, does not fit the framing, or
   * makes more messages wait than allowed.
   */
  accept(seq: number, record: Uint8Array): Placement {
    const placement = this.#window.offer(seq, record);
    if (placement !== 'next') return placement;
    for (let next = this.#window.take(); next !== null && !this.#stopped; next = this.#window.take()) {
      this.#open(next);
      this.#deliver();
      this.#checkLimits();
    }
    return placement;
  }

  /** Nothing more is delivered, and what waits is forgotten. */
  stop(): void {
    this.#stopped = true;
    this.#queue.length = 0;
    this.#charge();
  }

  #open(record: Uint8Array): void {
    const seq = this.#cipher.nextSeq;
    for (const bytes of this.#assembler.push(this.#cipher.open(record))) {
      if (!isUtf8(bytes)) throw new RelayError('protocol', 'a message is not valid UTF-8');
      this.#queue.push({ seq, bytes });
      this.#queuedBytes += bytes.length;
    }
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
      throw new RelayError('protocol', `more than ${MAX_QUEUED_MESSAGES} messages wait to be read`);
    }
    const withinBudget = this.#charge();
    if (this.#chargedBytes > MAX_STREAM_INBOUND_BYTES || !withinBudget) {
      throw new RelayError('protocol', 'messages that wait to be read take too much memory');
    }
  }

  /** Tells the budget what is held now. */
  #charge(): boolean {
    const held = this.#stopped ? 0 : this.#queuedBytes + this.#assembler.heldBytes;
    const change = held - this.#chargedBytes;
    this.#chargedBytes = held;
    this.#budget.add(change);
    return !this.#budget.exceeded;
  }
}
