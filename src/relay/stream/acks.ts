import { ACK_DELAY_MS, ACK_EVERY_RECORDS } from '../limits.ts';
import type { InboundMessages, Placement } from './inbound-messages.ts';
import { ACK_BITS } from './send-buffer.ts';

/** The ack fields of a frame. */
export interface Ack {
  readonly ack: number;
  readonly ackBits: number;
}

/**
 * Decides when to send an ack and computes its fields. A record counts as received once its message was delivered to the reader. A
 * peer whose messages are not read therefore fills its send window and stops.
 */
export class AckScheduler {
  readonly #inbound: InboundMessages;
  readonly #onDue: () => void;
  #unacknowledged = 0;
  #due = false;
  #delay: NodeJS.Timeout | null = null;

  /** Calls `onDue` when an ack should be sent, with or without a record. */
  constructor(inbound: InboundMessages, onDue: () => void) {
    this.#inbound = inbound;
    this.#onDue = onDue;
  }

  /** Whether an ack should be sent now. */
  get due(): boolean {
    return this.#due;
  }

  /** Counts a record. Records out of order and duplicates are acked immediately, because the ack shows the peer what is missing. */
  arrived(placement: Placement): void {
    this.#unacknowledged++;
    if (placement !== 'next' || this.#unacknowledged >= ACK_EVERY_RECORDS) this.#becomeDue();
    else this.schedule();
  }

  /** Schedules an ack after a short delay. */
  schedule(): void {
    if (this.#due || this.#delay !== null) return;
    this.#delay = setTimeout(() => this.#becomeDue(), ACK_DELAY_MS);
    this.#delay.unref();
  }

  /** The current ack. Null before the first record is consumed, which the wire format cannot express. */
  get current(): Ack | null {
    const ack = this.#inbound.consumed - 1;
    if (ack < 0) return null;
    let bits = 0;
    for (let index = 0; index < ACK_BITS; index++) {
      if (this.#inbound.has(ack + 1 + index)) bits |= 1 << index;
    }
    return { ack, ackBits: bits >>> 0 };
  }

  /** Resets the timer: a frame with {@link current} is being sent. */
  sent(): void {
    this.stop();
    this.#due = false;
    this.#unacknowledged = 0;
  }

  stop(): void {
    if (this.#delay !== null) clearTimeout(this.#delay);
    this.#delay = null;
  }

  #becomeDue(): void {
    this.stop();
    this.#due = true;
    this.#onDue();
  }
}
