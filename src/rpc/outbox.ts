import type { Transport } from '../transport/transport.ts';
import { UNSENT_RESPONSES_MAX_BYTES } from './limits.ts';

/** A message that may wait, and what to do when its bytes are no longer needed. */
interface BulkMessage {
  readonly bytes: Uint8Array;
  readonly released: (() => void) | undefined;
}

/** A message that is made while it is sent. */
export interface MessageStream {
  /** Yields the parts but the last. Each may be overwritten once `released` was called for it. */
  readonly parts: AsyncIterable<StreamPart>;
  readonly last: Uint8Array;
  /** Bytes in memory that it keeps while it waits to be sent. */
  readonly keptBytes: number;
}

export interface StreamPart {
  readonly bytes: Uint8Array;
  readonly released?: () => void;
}

/** Who is told to slow down. */
export interface OutboxEvents {
  /** Producers of bulk data stop (true) or go on (false). */
  bulk(stopped: boolean): void;
  /** Answers pile up because the peer does not read (true), or flow again (false). */
  responses(stopped: boolean): void;
}

/**
 * What waits to be sent on one connection. Control messages go straight to the transport; bulk data goes only while the
 * transport has room and waits here otherwise, so that an answer never stands behind more than the transport's own window.
 */
export class Outbox {
  readonly #transport: Transport;
  readonly #highWaterBytes: number;
  readonly #events: OutboxEvents;
  #bulk: BulkMessage[] = [];
  #bulkHead = 0;
  #bulkBytes = 0;
  #congested = false;
  #saturated = false;
  #responsesStopped = false;
  #unsentResponseBytes = 0;
  /** Kept by streams that wait for another one. */
  #waitingStreamBytes = 0;
  /** Control messages that wait for the end of a stream; null while none is being sent. */
  #behindStream: { message: string | Uint8Array; released: (() => void) | undefined }[] | null = null;
  #streams: Promise<void> = Promise.resolve();
  #resumeStream: (() => void) | null = null;
  #partsSent = 0;
  #closed = false;

  constructor(transport: Transport, highWaterBytes: number, events: OutboxEvents) {
    this.#transport = transport;
    this.#highWaterBytes = highWaterBytes;
    this.#events = events;
  }

  /** Bytes that wait for the peer to read. */
  get waitingBytes(): number {
    return this.#bulkBytes + this.#unsentResponseBytes;
  }

  /** Whether more is waiting than the high-water mark allows. */
  get saturated(): boolean {
    return this.#saturated;
  }

  /** Parts of streams that the transport has been given. */
  get partsSent(): number {
    return this.#partsSent;
  }

  /** Sends ahead of waiting bulk data. */
  sendControl(message: string | Uint8Array, released?: () => void): void {
    if (this.#closed) return;
    if (this.#behindStream !== null) {
      this.#behindStream.push({ message, released });
    } else {
      if (this.#transport.send(message, released)) return;
      this.#congested = true;
    }
    this.#unsentResponseBytes += message.length;
    this.#updateResponses();
  }

  /** Sends in order with other bulk data. */
  sendBulk(bytes: Uint8Array, released?: () => void): void {
    if (this.#closed) return;
    if (!this.#congested && this.#bulkBytes === 0 && this.#behindStream === null) {
      this.#congested = !this.#transport.send(bytes, released);
      return;
    }
    this.#bulk.push({ bytes, released });
    this.#bulkBytes += bytes.length;
    this.#updateFlow();
  }

  /**
   * Sends a message in parts, as fast as the peer takes them; whatever else is sent meanwhile waits behind it, and a second
   * stream waits for the first. Rejects with what `parts` throws: the peer then holds half a message, nothing more can be sent,
   * and only the end of the connection helps.
   */
  sendStream(stream: MessageStream): Promise<void> {
    this.#waitingStreamBytes += stream.keptBytes;
    this.#updateResponses();
    const sent = this.#streams.then(() => {
      this.#waitingStreamBytes -= stream.keptBytes;
      this.#updateResponses();
      return this.#sendParts(stream);
    });
    this.#streams = sent.catch(() => this.close());
    return sent;
  }

  /** Continues after the transport was congested. */
  drained(): void {
    if (this.#behindStream !== null) {
      this.#resumeStream?.();
      return;
    }
    this.#congested = false;
    this.#unsentResponseBytes = 0;
    this.#updateResponses();
    this.#sendWaitingBulk();
  }

  /** Hands everything that waits to the transport, whether it has room or not, and takes nothing more. A stream under way stops. */
  finish(): void {
    if (this.#behindStream === null) while (this.#bulkBytes > 0) this.#sendNextBulk();
    this.close();
  }

  /** Nothing more can be sent: a stream under way stops. */
  close(): void {
    this.#closed = true;
    this.#resumeStream?.();
  }

  async #sendParts({ parts, last }: MessageStream): Promise<void> {
    if (this.#closed) return;
    this.#behindStream = [];
    for await (const { bytes, released } of parts) {
      this.#partsSent++;
      if (!this.#transport.sendPart(bytes, false, released)) await this.#roomInTransport();
      if (this.#closed) return;
    }
    this.#endStream(this.#transport.sendPart(last, true));
  }

  /** Resolves when the transport takes more, or never will again. */
  async #roomInTransport(): Promise<void> {
    if (this.#closed) return;
    await new Promise<void>((resolve) => {
      this.#resumeStream = resolve;
    });
    this.#resumeStream = null;
  }

  #endStream(hasRoom: boolean): void {
    const waiting = this.#behindStream ?? [];
    this.#behindStream = null;
    this.#congested = !hasRoom;
    for (const { message, released } of waiting) {
      // It is counted again if it has to wait again.
      this.#unsentResponseBytes -= message.length;
      this.sendControl(message, released);
    }
    if (!this.#congested) this.drained();
  }

  #sendWaitingBulk(): void {
    while (!this.#congested && this.#bulkBytes > 0) this.#sendNextBulk();
    // At least half of the list is live, so what was sent is neither kept for long nor moved often.
    if (this.#bulkHead * 2 >= this.#bulk.length) {
      this.#bulk = this.#bulk.slice(this.#bulkHead);
      this.#bulkHead = 0;
    }
    this.#updateFlow();
  }

  #sendNextBulk(): void {
    const { bytes, released } = this.#bulk[this.#bulkHead++]!;
    this.#bulkBytes -= bytes.length;
    this.#congested = !this.#transport.send(bytes, released);
  }

  #updateResponses(): void {
    const stopped = this.#unsentResponseBytes + this.#waitingStreamBytes > UNSENT_RESPONSES_MAX_BYTES;
    if (stopped === this.#responsesStopped) return;
    this.#responsesStopped = stopped;
    this.#events.responses(stopped);
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
