import { ACK_DELAY_MS, ACK_EVERY_RECORDS } from '../limits.ts';
import type { InboundMessages } from './inbound-messages.ts';
import type { Placement } from './reorder-window.ts';
import { ACK_BITS } from './send-buffer.ts';

/** The ack in a frame. */
export interface Ack {
  readonly ack: number;
  readonly ackBits: number;
}

/**
 * Tells when the peer should get an ack, and what it says. Records count as received when their message was handed over, so that
 * a peer whose messages are not read runs out of room to send.
 */
export class AckScheduler {
  readonly #inbound: InboundMessages;
  readonly #onDue: () => void;
  #unacknowledged = 0;
  #due = false;
  #delay: NodeJS.Timeout | null = null;

  /** `onDue` is called when an ack should leave, with or without a record. */
  constructor(inbound: InboundMessages, onDue: () => void) {
    this.#inbound = inbound;
    this.#onDue = onDue;
  }

  /** Whether an ack should leave now. */
  get due(): boolean {
    return this.#due;
  }

  /** Takes note of a record. What is out of order or comes again is answered at once, so that the peer learns what is missing. */
  arrived(placement: Placement): void {
    this.#unacknowledged++;
    if (placement !== 'next' || this.#unacknowledged >= ACK_EVERY_RECORDS) this.#becomeDue();
    else this.later();
  }

  /** An ack is wanted soon. */
  later(): void {
    if (this.#due || this.#delay !== null) return;
    this.#delay = setTimeout(() => this.#becomeDue(), ACK_DELAY_MS);
    this.#delay.unref();
  }

  /** What there is to say; null before the first record is done with, for which the wire has no word. */
  get current(): Ack | null {
    const ack = this.#inbound.consumed - 1;
    if (ack < 0) return null;
    let bits = 0;
    for (let index = 0; index < ACK_BITS; index++) {
      if (this.#inbound.has(ack + 1 + index)) bits |= 1 << index;
    }
    return { ack, ackBits: bits >>> 0 };
  }

  /** A frame with {@link current} leaves. */
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
