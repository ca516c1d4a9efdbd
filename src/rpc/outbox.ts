import type { BytesMessage, Transport } from '../transport/transport.ts';
import { UNSENT_RESPONSES_MAX_BYTES } from './limits.ts';

/** An encoded message: a text, its UTF-8, or a binary message. */
export type OutgoingMessage = string | Uint8Array | BytesMessage;

/** A message that may wait, with a callback for when its bytes are no longer needed. */
interface WaitingMessage {
  readonly message: OutgoingMessage;
  readonly released: (() => void) | undefined;
}

/** A message that is produced while it is sent. */
export interface MessageStream {
  /** Yields all parts but the last. A part may be overwritten after its `released` was called. */
  readonly parts: AsyncIterable<StreamPart>;
  readonly last: Uint8Array;
  /** Bytes of memory that the stream holds while it waits to be sent. */
  readonly keptBytes: number;
  /** Whether it is a binary message. Default: false. */
  readonly isBinary?: boolean;
}

export interface StreamPart {
  readonly bytes: Uint8Array;
  readonly released?: () => void;
}

/** Back-pressure callbacks. */
export interface OutboxEvents {
  /** Producers of bulk data must stop (true) or may continue (false). */
  bulk(stopped: boolean): void;
  /** Responses pile up because the peer does not read (true), or flow again (false). */
  responses(stopped: boolean): void;
}

/**
 * The send queue of one connection. Control messages go directly to the transport. Bulk data goes there only while
 * the transport has capacity, and waits here otherwise. So a response never waits behind more than the transport's
 * send window.
 */
export class Outbox {
  readonly #transport: Transport;
  readonly #highWaterBytes: number;
  readonly #events: OutboxEvents;
  #bulk: WaitingMessage[] = [];
  #bulkHead = 0;
  #bulkBytes = 0;
  #congested = false;
  #saturated = false;
  #responsesStopped = false;
  #unsentResponseBytes = 0;
  /** Bytes held by streams that wait for another stream. */
  #waitingStreamBytes = 0;
  /** Control messages that wait for the end of a stream; null when no stream is being sent. */
  #behindStream: WaitingMessage[] | null = null;
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

  /** Whether more waits than the high-water mark allows. */
  get saturated(): boolean {
    return this.#saturated;
  }

  /** Number of stream parts passed to the transport. */
  get partsSent(): number {
    return this.#partsSent;
  }

  /** Sends a message ahead of waiting bulk data. */
  sendControl(message: OutgoingMessage, released?: () => void): void {
    if (this.#closed) return;
    if (this.#behindStream !== null) {
      this.#behindStream.push({ message, released });
    } else {
      if (this.#send(message, released)) return;
      this.#congested = true;
    }
    this.#unsentResponseBytes += sizeOf(message);
    this.#updateResponses();
  }

  /** Sends a message in order with other bulk data. */
  sendBulk(message: OutgoingMessage, released?: () => void): void {
    if (this.#closed) return;
    if (!this.#congested && this.#bulkBytes === 0 && this.#behindStream === null) {
      this.#congested = !this.#send(message, released);
      return;
    }
    this.#bulk.push({ message, released });
    this.#bulkBytes += sizeOf(message);
    this.#updateFlow();
  }

  /**
   * Sends a message in parts, as fast as the peer reads them. Other messages wait until it ends, and a second
   * stream waits for the first. Rejects with what `parts` throws. The peer has then received a partial message,
   * nothing more can be sent, and the connection must be closed.
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

  /**
   * Passes everything that waits to the transport, regardless of its capacity, and accepts nothing more. A stream
   * in progress stops.
   */
  finish(): void {
    if (this.#behindStream === null) while (this.#bulkBytes > 0) this.#sendNextBulk();
    this.close();
  }

  /** Accepts nothing more. A stream in progress stops. */
  close(): void {
    this.#closed = true;
    this.#resumeStream?.();
  }

  async #sendParts({ parts, last, isBinary = false }: MessageStream): Promise<void> {
    if (this.#closed) return;
    this.#behindStream = [];
    for await (const { bytes, released } of parts) {
      this.#partsSent++;
      if (!this.#transport.sendPart(bytes, false, released, isBinary)) await this.#transportCapacity();
      if (this.#closed) return;
    }
    this.#endStream(this.#transport.sendPart(last, true, undefined, isBinary));
  }

  /** Resolves when the transport has capacity again, or is closed. */
  async #transportCapacity(): Promise<void> {
    if (this.#closed) return;
    await new Promise<void>((resolve) => {
      this.#resumeStream = resolve;
    });
    this.#resumeStream = null;
  }

  #endStream(hasCapacity: boolean): void {
    const waiting = this.#behindStream ?? [];
    this.#behindStream = null;
    this.#congested = !hasCapacity;
    for (const { message, released } of waiting) {
      // It is counted again if it has to wait again.
      this.#unsentResponseBytes -= sizeOf(message);
      this.sendControl(message, released);
    }
    if (!this.#congested) this.drained();
  }

  #sendWaitingBulk(): void {
    while (!this.#congested && this.#bulkBytes > 0) this.#sendNextBulk();
    // Compact only when at least half of the array is dead, so that sent messages are neither kept for long nor
    // moved often.
    if (this.#bulkHead * 2 >= this.#bulk.length) {
      this.#bulk = this.#bulk.slice(this.#bulkHead);
      this.#bulkHead = 0;
    }
    this.#updateFlow();
  }

  #sendNextBulk(): void {
    const { message, released } = this.#bulk[this.#bulkHead++]!;
    this.#bulkBytes -= sizeOf(message);
    this.#congested = !this.#send(message, released);
  }

  /** Binary messages are sent only where the transport has them. */
  #send(message: OutgoingMessage, released: (() => void) | undefined): boolean {
    const isBinary = typeof message === 'object' && 'text' in message;
    return isBinary ? this.#transport.sendBytes!(message, released) : this.#transport.send(message, released);
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

function sizeOf(message: OutgoingMessage): number {
  const isBinary = typeof message === 'object' && 'text' in message;
  return isBinary ? message.text.length + message.bytes.length : message.length;
}
