import type { Transport } from '../transport/transport.ts';
import { UNSENT_ANSWERS_MAX_BYTES } from './limits.ts';

/** Who is told to slow down. */
export interface OutboxEvents {
  /** Producers of bulk data stop (true) or go on (false). */
  bulk(stopped: boolean): void;
  /** Answers pile up because the peer does not read (true), or flow again (false). */
  answers(stopped: boolean): void;
}

/**
 * What waits to be sent on one connection. Control messages go straight to the transport; bulk data goes only while the
 * transport has room and waits here otherwise, so that an answer never stands behind more than the transport's own window.
 */
export class Outbox {
  readonly #transport: Transport;
  readonly #highWaterBytes: number;
  readonly #events: OutboxEvents;
  #bulk: Uint8Array[] = [];
  #bulkHead = 0;
  #bulkBytes = 0;
  #congested = false;
  #saturated = false;
  #answersStopped = false;
  #unsentAnswerBytes = 0;

  constructor(transport: Transport, highWaterBytes: number, events: OutboxEvents) {
    this.#transport = transport;
    this.#highWaterBytes = highWaterBytes;
    this.#events = events;
  }

  /** Whether more is waiting than the high-water mark allows. */
  get saturated(): boolean {
    return this.#saturated;
  }

  /** Sends ahead of waiting bulk data. */
  sendControl(message: string): void {
    if (this.#transport.send(message)) return;
    this.#congested = true;
    this.#unsentAnswerBytes += message.length;
    if (this.#answersStopped || this.#unsentAnswerBytes <= UNSENT_ANSWERS_MAX_BYTES) return;
    this.#answersStopped = true;
    this.#events.answers(true);
  }

  /** Sends in order with other bulk data. */
  sendBulk(message: Uint8Array): void {
    if (!this.#congested && this.#bulkBytes === 0) {
      this.#congested = !this.#transport.send(message);
      return;
    }
    this.#bulk.push(message);
    this.#bulkBytes += message.length;
    this.#updateFlow();
  }

  /** Continues after the transport was congested. */
  drained(): void {
    this.#congested = false;
    this.#unsentAnswerBytes = 0;
    if (this.#answersStopped) {
      this.#answersStopped = false;
      this.#events.answers(false);
    }
    while (!this.#congested && this.#bulkBytes > 0) {
      const next = this.#bulk[this.#bulkHead++]!;
      this.#bulkBytes -= next.length;
      this.#congested = !this.#transport.send(next);
    }
    // At least half of the list is live, so what was sent is neither kept for long nor moved often.
    if (this.#bulkHead * 2 >= this.#bulk.length) {
      this.#bulk = this.#bulk.slice(this.#bulkHead);
      this.#bulkHead = 0;
    }
    this.#updateFlow();
  }

  #updateFlow(): void {
    const saturated = this.#saturated
      ? this.#bulkBytes > this.#highWaterBytes / 2
      : this.#bulkBytes > this.#highWaterBytes;
    if (saturated === this.#saturated) return;
    this.#saturated = saturated;
    this.#events.bulk(saturated);
  }
}
