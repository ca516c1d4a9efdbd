import type { ByteBudget } from '../../base/byte-budget.ts';
import {
  CloseCode,
  type CloseReason,
  type Transport,
  type TransportEvents,
} from '../../transport/transport.ts';
import { RelayError } from '../errors.ts';
import { type DataBody, encodeFrame, type FrameBody, type ReceivedFrame } from '../frames/frame.ts';
import { RESET_REASON } from '../frames/frame-markers.ts';
import {
  CLOSE_TIMEOUT_MS,
  LARGE_MESSAGE_BYTES,
  MAX_MESSAGE_BYTES,
  MAX_UNANSWERED_REQUESTS,
  SEND_WINDOW_BYTES,
} from '../limits.ts';
import type { ChannelCiphers, RecordCipher } from '../noise/record-cipher.ts';
import { InboundMessages } from './inbound-messages.ts';
import { type OutboundPart, OutboundRecords } from './message-framing.ts';
import type { FrameSource, OutgoingFrames } from './outgoing-frames.ts';
import { Reliability } from './reliability.ts';

/** What a link passes to its stream. */
interface StreamOptions {
  readonly streamId: string;
  readonly ciphers: ChannelCiphers;
  /** Whether the peer sends acks. If so, the stream survives lost frames and pipes. */
  readonly acknowledged: boolean;
  readonly outgoing: OutgoingFrames;
  readonly budget: ByteBudget;
  /** Pauses or resumes reading from the pipe. Only for a pipe with a single stream. */
  readonly setPipeReceiving?: (receiving: boolean) => void;
  /** Called once when the stream has ended, before the `closed` event. */
  readonly ended: () => void;
}

/** One virtual stream after its handshake, as a transport. The link passes received frames to it. */
export class NoiseStream implements Transport, FrameSource {
  readonly streamId: string;
  readonly maxMessageBytes = MAX_MESSAGE_BYTES;
  readonly #options: StreamOptions;
  readonly #sealing: RecordCipher;
  readonly #inbound: InboundMessages;
  readonly #outbound = new OutboundRecords();
  /** Null when the peer does not send acks. */
  readonly #reliability: Reliability | null;
  #events: TransportEvents | null = null;
  #parts: OutboundPart[] = [];
  #partsBytes = 0;
  #congested = false;
  /** The close reason while the last messages are still being sent. */
  #closing: CloseReason | null = null;
  #closeTimeout: NodeJS.Timeout | null = null;
  #endReason: CloseReason | null = null;

  constructor(options: StreamOptions) {
    this.streamId = options.streamId;
    this.#options = options;
    this.#sealing = options.ciphers.sending;
    this.#inbound = new InboundMessages(options.ciphers.receiving, options.budget);
    this.#reliability = options.acknowledged
      ? new Reliability(this.#inbound, {
          wake: () => options.outgoing.wake(this),
          send: (body, ackBits) => this.#sendControl(body, ackBits),
          failed: (reason) => this.#end({ code: CloseCode.abnormal, reason }, true),
        })
      : null;
  }

  /** A peer without acks resets the stream when too many messages are queued. With acks the send window prevents that. */
  get maxUnansweredRequests(): number | undefined {
    return this.#reliability === null ? MAX_UNANSWERED_REQUESTS : undefined;
  }

  get ended(): boolean {
    return this.#endReason !== null;
  }

  open(events: TransportEvents): void {
    this.#events = events;
    const ended = this.#endReason;
    setImmediate(() => {
      if (ended !== null) events.closed(ended);
      else this.#inbound.open((message) => this.#deliver(message));
    });
  }

  send(message: string | Uint8Array, released?: () => void): boolean {
    const bytes = typeof message === 'string' ? Buffer.from(message) : message;
    return this.#push([{ bytes, released }], bytes.length);
  }

  /** Keeps the parts until the last one, because the length prefix needs the total length. */
  sendPart(part: Uint8Array, last: boolean, released?: () => void): boolean {
    if (this.#endReason !== null || this.#closing !== null) return true;
    this.#parts.push({ bytes: part, released });
    this.#partsBytes += part.length;
    if (!last && this.#partsBytes <= MAX_MESSAGE_BYTES) return true;
    const [parts, length] = [this.#parts, this.#partsBytes];
    this.#parts = [];
    this.#partsBytes = 0;
    return this.#push(parts, length);
  }

  /** Checks that the peer still answers. Without acks there is nothing to check. */
  probe(): void {
    if (this.#endReason === null) this.#reliability?.probe();
  }

  confirmReceived(_sentBeforeMs: number, confirmed: () => void): void {
    if (this.#reliability === null) confirmed();
    else this.#reliability.whenSettled(confirmed);
  }

  setReceiving(receiving: boolean): void {
    if (this.#endReason !== null) return;
    this.#inbound.setReceiving(receiving);
    if (this.#reliability !== null) this.#reliability.consumed();
    else this.#options.setPipeReceiving?.(receiving);
  }

  close(reason: CloseReason): void {
    if (this.#closing !== null || this.#endReason !== null) return;
    this.#closing = reason;
    this.#inbound.stop();
    this.#closeTimeout = setTimeout(() => this.#end(reason, true), CLOSE_TIMEOUT_MS);
    this.#endWhenSent();
  }

  /** Handles a frame of the peer, other than a handshake. */
  receive(frame: ReceivedFrame): void {
    if (this.#endReason !== null) return;
    const { body } = frame;
    if (body.kind === 'reset') {
      if (this.#reliability?.survives(body.reason)) return;
      this.#end({ code: CloseCode.abnormal, reason: 'the peer reset the stream' }, false);
      return;
    }
    this.#endOnError(() => {
      this.#reliability?.receive(frame);
      if (body.kind === 'data') this.#receiveRecord(body);
    });
    this.#endWhenSent();
  }

  /** Handles the loss of the pipe. Returns true when the stream waits for another pipe, false when it has ended. */
  pipeLost(): boolean {
    if (this.#endReason !== null) return false;
    if (this.#reliability !== null) {
      this.#reliability.peerLost();
      return true;
    }
    this.#end({ code: CloseCode.abnormal, reason: 'lost the connection to the rendezvous' }, false);
    return false;
  }

  /** Asks the peer to resume over a new pipe. */
  pipeAttached(): void {
    if (this.#endReason === null) this.#reliability?.requestResume();
  }

  /** Ends the stream immediately and discards unsent messages. */
  abort(reason: CloseReason): void {
    this.#end(reason, true);
  }

  nextFrame(): Uint8Array | null {
    this.#reportDrained();
    if (this.#endReason !== null || this.#reliability?.waiting) return null;
    const again = this.#reliability?.takeRetransmit() ?? null;
    if (again !== null) return this.#dataFrame(again);
    const frame = this.#reliability?.full ? null : this.#nextRecord();
    if (frame !== null) return frame;
    this.#endWhenSent();
    const ack = this.#endReason === null ? (this.#reliability?.takeAck() ?? null) : null;
    return ack === null ? null : encodeFrame({ streamId: this.streamId, ...ack });
  }

  #push(parts: readonly OutboundPart[], length: number): boolean {
    if (this.#endReason !== null || this.#closing !== null || length === 0) return true;
    if (length > MAX_MESSAGE_BYTES) {
      const reason = `a message is larger than ${MAX_MESSAGE_BYTES} bytes`;
      this.#end({ code: CloseCode.messageTooBig, reason }, true);
      return true;
    }
    this.#outbound.push(parts);
    this.#options.outgoing.wake(this);
    this.#congested ||= this.#outbound.pendingBytes > SEND_WINDOW_BYTES;
    return !this.#congested;
  }

  #reportDrained(): void {
    if (!this.#congested || this.#outbound.pendingBytes > SEND_WINDOW_BYTES / 2) return;
    this.#congested = false;
    if (this.#closing === null && this.#endReason === null) this.#events?.drained();
  }

  #nextRecord(): Uint8Array | null {
    const record = this.#outbound.next(this.#inbound.peerSegments);
    if (record === null) return null;
    const { bytes, segment } = record;
    const seq = this.#sealing.nextSeq;
    const payload = this.#endOnError(() => this.#sealing.seal(bytes));
    if (payload === undefined) return null;
    this.#reliability?.sent(payload, segment);
    return this.#dataFrame({ seq, payload, segment });
  }

  #dataFrame({ seq, payload, segment }: Omit<DataBody, 'kind'>): Uint8Array {
    const ack = this.#reliability?.ackForRecord();
    return encodeFrame({ streamId: this.streamId, ...ack, body: { kind: 'data', seq, payload, segment } });
  }

  #receiveRecord(record: DataBody): void {
    const placement = this.#inbound.accept(record);
    if (this.#reliability !== null) this.#reliability.arrived(placement);
    else if (placement === 'beyond')
      throw new RelayError('protocol', 'a record is too far ahead of its sequence');
  }

  #deliver(message: Buffer): void {
    if (message.length >= LARGE_MESSAGE_BYTES && this.#events?.largeMessage !== undefined) {
      const large = this.#events.largeMessage(message.length);
      large.add(message);
      large.end();
    } else {
      this.#events?.message(message.toString());
    }
  }

  #endWhenSent(): void {
    const sent = this.#outbound.pendingBytes === 0 && (this.#reliability?.settled ?? true);
    if (this.#closing !== null && sent) this.#end(this.#closing, true);
  }

  /** Ends the stream, and only the stream, on a protocol error of the peer. */
  #endOnError<T>(step: () => T): T | undefined {
    try {
      return step();
    } catch (error) {
      if (!(error instanceof RelayError)) throw error;
      this.#end({ code: CloseCode.abnormal, reason: error.message }, true);
      return undefined;
    }
  }

  #sendControl(body: FrameBody, ackBits = 0): void {
    this.#options.outgoing.sendControl(encodeFrame({ streamId: this.streamId, ackBits, body }));
  }

  #end(reason: CloseReason, notifyPeer: boolean): void {
    if (this.#endReason !== null) return;
    this.#endReason = reason;
    if (this.#closeTimeout !== null) clearTimeout(this.#closeTimeout);
    this.#reliability?.stop();
    this.#inbound.stop();
    this.#parts = [];
    this.#options.outgoing.remove(this);
    if (notifyPeer) this.#sendControl({ kind: 'reset', reason: RESET_REASON });
    this.#options.ended();
    this.#events?.closed(reason);
  }
}

/** Closes a stream that has no owner yet. Opens it first: an unopened stream would wait without a limit. */
export function rejectStream(stream: Transport, reason: string): void {
  const ignore = () => {};
  stream.open({ message: ignore, undecodable: ignore, drained: ignore, ended: ignore, closed: ignore });
  stream.close({ code: CloseCode.tryAgainLater, reason });
}
