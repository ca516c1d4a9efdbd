import { asBuffer } from '../base/as-buffer.ts';
import { encodeBase64 } from '../base/base64.ts';
import { bytesMemberOf } from '../protocol/bytes-members.ts';
import {
  decodeMessage,
  type ErrorMessage,
  encodeError,
  encodeMalformed,
  encodeNotification,
  encodeResult,
  type Message,
  type NotificationMessage,
  type RequestId,
  type RequestMessage,
  type ResponseMessage,
} from '../protocol/envelope.ts';
import { limitExceeded, printable, RpcError } from '../protocol/errors.ts';
import { MalformedMessageError, type Numbers } from '../protocol/json-scan.ts';
import type { MessageLimits } from '../protocol/limits.ts';
import {
  type BytesMessage,
  CloseCode,
  type CloseReason,
  type LargeMessage,
  type Transport,
} from '../transport/transport.ts';
import { base64Length } from './base64.ts';
import { BINARY_MIN_BYTES, MAX_MALFORMED_IN_A_ROW } from './limits.ts';
import { Outbox, type OutboxEvents, type OutgoingMessage } from './outbox.ts';
import { type CallOptions, OutgoingCalls } from './outgoing-calls.ts';
import { ReceiveLimiter } from './receive-limiter.ts';
import {
  Base64Result,
  BytesResult,
  binaryResult,
  EncodedResult,
  encodeBase64Result,
  encodeBytesResult,
  StreamedResult,
  streamBinaryResult,
  streamResult,
} from './results.ts';

/** Receives what the peer sends. */
export interface ConnectionEvents extends OutboxEvents {
  request(message: RequestMessage): void;
  notification(message: NotificationMessage): void;
  /** A response without a matching call. Late and duplicate responses are ignored. */
  unexpectedResponse(message: ResponseMessage | ErrorMessage): void;
  /** An invalid message. Without this callback the peer gets an error and the connection continues. */
  malformed?(reason: string): void;
  /** The connection is closed because too many invalid messages arrived in a row. */
  tooManyMalformed?(reason: string): void;
  /** The peer sends nothing more but still reads. */
  ended(): void;
  closed(reason: CloseReason): void;
}

/** Limits and options of a connection. */
interface ConnectionOptions {
  readonly limits: MessageLimits;
  readonly outboundHighWaterBytes: number;
  /** Average number of messages read per second; unlimited if absent. */
  readonly maxMessagesPerSecond?: number;
  /** Largest response; unlimited if absent. */
  readonly maxResponseBytes?: number;
  /** Default `integers`. */
  readonly numbers?: Numbers;
  /** Creates the decoder of a large message. Without it large messages are decoded like others. */
  readonly receiveLarge?: (expectedBytes: number) => LargeMessageDecoder;
}

/** Decodes a large message while it arrives. */
interface LargeMessageDecoder extends Omit<LargeMessage, 'add' | 'end'> {
  add(piece: Buffer): void;
  /** Returns the message after its last byte. Throws MalformedMessageError. */
  decode(limits: MessageLimits): Message;
}

/**
 * JSON-RPC over one transport. Handles ids, not methods. Answers malformed input itself. Keeps the connection open
 * unless too many malformed messages arrive in a row.
 */
export class RpcConnection {
  readonly #transport: Transport;
  readonly #options: ConnectionOptions;
  readonly #outbox: Outbox;
  readonly #receiveLimiter: ReceiveLimiter | null;
  readonly #calls: OutgoingCalls;
  #events: ConnectionEvents | null = null;
  #answers = 0;
  #malformedInARow = 0;
  #sendsBytes = false;
  #closed: CloseReason | null = null;

  constructor(transport: Transport, options: ConnectionOptions) {
    this.#transport = transport;
    this.#options = options;
    this.#outbox = new Outbox(transport, options.outboundHighWaterBytes, {
      bulk: (stopped) => this.#events?.bulk(stopped),
      responses: (stopped) => this.#events?.responses(stopped),
    });
    this.#calls = new OutgoingCalls(transport, this.#outbox, (length) => this.takesBytes(length));
    const { maxMessagesPerSecond } = options;
    this.#receiveLimiter = maxMessagesPerSecond
      ? new ReceiveLimiter(maxMessagesPerSecond, (open) => transport.setReceiving(open))
      : null;
  }

  /** Starts delivery. Must be called once. */
  open(events: ConnectionEvents): void {
    const { receiveLarge } = this.#options;
    this.#events = events;
    this.#transport.open({
      message: (text) => {
        this.#receive(() => decodeMessage(text, this.#options.limits, this.#options.numbers));
      },
      ...(receiveLarge && {
        largeMessage: (expectedBytes: number) => this.#begin(receiveLarge(expectedBytes)),
      }),
      bytesMessage: (message) => this.#receive(() => this.#decodeBytes(message)),
      undecodable: (reason) => this.#malformed(new MalformedMessageError(reason)),
      drained: () => this.#outbox.drained(),
      ended: () => events.ended(),
      closed: (reason) => this.#end(reason),
    });
  }

  /** Whether both ends are in one process. */
  get inProcess(): boolean {
    return this.#transport.inProcess ?? false;
  }

  /** Whether the transport has binary messages. */
  get hasBinaryMessages(): boolean {
    return this.#transport.sendBytes !== undefined;
  }

  /** From now on the peer may send binary messages. */
  acceptBytes(): void {
    this.#transport.acceptBytes?.();
  }

  /** The peer accepts binary messages. From now on they are sent where they are cheaper. */
  useBytes(): void {
    this.#sendsBytes = true;
  }

  /** Whether so many bytes go in a binary message. */
  takesBytes(length: number): boolean {
    return this.#sendsBytes && length >= BINARY_MIN_BYTES;
  }

  /** Bytes that wait for the peer to read. */
  get outboundBytes(): number {
    return this.#outbox.waitingBytes;
  }

  /**
   * Number of responses, and of parts of long ones, passed to the transport. It grows while the peer is being
   * answered.
   */
  get answered(): number {
    return this.#answers + this.#outbox.partsSent;
  }

  /** Whether more bulk data waits than the high-water mark allows. */
  get saturated(): boolean {
    return this.#outbox.saturated;
  }

  /**
   * Answers a request. The promise, if any, resolves after the last byte of the response. A response that is too
   * large is not sent: the method throws an RpcError to send instead.
   */
  respond(id: RequestId, result: unknown): Promise<void> | undefined {
    this.#answers++;
    if (result instanceof StreamedResult) return this.#stream(id, result);
    if (result instanceof Base64Result) {
      this.#respondWithBase64(id, result);
    } else if (result instanceof BytesResult) {
      this.#checkSize(result.bytes.length + result.after.length);
      this.#outbox.sendControl(encodeBytesResult(id, result));
    } else {
      const text =
        result instanceof EncodedResult ? encodedResult(id, result.json) : encodeResult(id, result);
      this.#checkSize(text.length);
      this.#outbox.sendControl(text);
      if (result instanceof EncodedResult) result.afterSent?.();
    }
    return undefined;
  }

  /** Returns how long the JSON of a result for this request may be. */
  maxResultBytes(id: RequestId): number {
    const { maxResponseBytes = Number.POSITIVE_INFINITY } = this.#options;
    return maxResponseBytes - encodedResult(id, '').length;
  }

  refuse(id: RequestId, error: RpcError): void {
    this.#answers++;
    this.#outbox.sendControl(encodeError(id, error));
  }

  notify(method: string, params?: unknown): void {
    this.#outbox.sendControl(encodeNotification(method, params));
  }

  /** Sends an encoded message in order with other bulk data and after control messages. */
  sendBulk(message: OutgoingMessage, released?: () => void): void {
    this.#outbox.sendBulk(message, released);
  }

  /**
   * Calls a method of the peer. A Uint8Array among the params is sent as bytes or as base64, and must not be changed any more.
   * Rejects with RpcError when the peer answers with an error, with ConnectionClosedError when the connection ends
   * first, and immediately with TooManyCallsError when too many calls are open.
   */
  call(method: string, params?: unknown, options: CallOptions = {}): Promise<unknown> {
    if (this.#closed !== null) return Promise.reject(new ConnectionClosedError(this.#closed));
    return this.#calls.call(method, params, options);
  }

  /** Checks that the peer is still alive, if the transport supports it. */
  probe(): void {
    this.#transport.probe?.();
  }

  /** Calls back when the peer has received what was sent before that time. Assumes it where the transport does not know. */
  confirmReceived(sentBeforeMs: number, confirmed: () => void): void {
    if (this.#transport.confirmReceived === undefined) confirmed();
    else this.#transport.confirmReceived(sentBeforeMs, confirmed);
  }

  /** The peer has sent a valid `initialize`: its transport may lift the limits for new peers. */
  peerInitialized(): void {
    this.#transport.peerInitialized?.();
  }

  /** Stops or resumes reading from the peer. */
  setReceiving(receiving: boolean): void {
    if (this.#receiveLimiter === null) this.#transport.setReceiving(receiving);
    else this.#receiveLimiter.setAccepting(receiving);
  }

  close(reason: CloseReason): void {
    this.#transport.close(reason);
  }

  /**
   * Closes the connection after everything that waits to be sent, including bulk data. Nothing more can be sent.
   */
  finish(reason: CloseReason): void {
    this.#outbox.finish();
    this.#transport.close(reason);
  }

  /**
   * Ends the connection immediately: open calls fail and no more events are delivered. The transport closes in the
   * background.
   */
  abandon(reason: CloseReason): void {
    this.#transport.close(reason);
    this.#end(reason);
  }

  /** Releases the bytes also when they are refused. */
  #respondWithBase64(id: RequestId, result: Base64Result): void {
    const { length } = result.bytes;
    const release = () => result.hooks.release?.();
    try {
      this.#checkSize(this.takesBytes(length) ? length : base64Length(length));
    } catch (error) {
      release();
      throw error;
    }
    if (this.takesBytes(length)) {
      this.#outbox.sendControl(binaryResult(id, result), release);
    } else {
      const { bytes, released } = encodeBase64Result(id, result);
      this.#outbox.sendControl(bytes, released);
      release();
    }
    result.hooks.afterSent?.();
  }

  /** Puts the bytes of a binary message in their place. */
  #decodeBytes({ text, bytes, release = () => {} }: BytesMessage): Message {
    const message = decodeMessage(text, this.#options.limits, this.#options.numbers);
    if (message.kind === 'request') {
      const field = this.#bytesField('requests', message.method, message.params, message.id);
      const bulk = { field, bytes, problem: null, text: () => encodeBase64(bytes), release };
      return { ...message, bytes: text.length + bytes.length, bulk };
    }
    if (message.kind === 'notification') {
      const field = this.#bytesField('notifications', message.method, message.params);
      return { ...message, params: { ...(message.params as object), [field]: bytes } };
    }
    if (message.kind === 'error') throw new MalformedMessageError('an error is not sent as a binary message');
    const method = this.#calls.methodOf(message.id);
    // The answer to a call that was given up is ignored.
    if (method === null) return message;
    const field = this.#bytesField('results', method, message.result);
    return { ...message, result: { ...(message.result as object), [field]: bytes } };
  }

  /** The name of the member that the bytes belong to. Throws MalformedMessageError when the message has no place for them. */
  #bytesField(
    kind: Parameters<typeof bytesMemberOf>[0],
    method: string,
    members: unknown,
    id: string | null = null,
  ): string {
    const field = bytesMemberOf(kind, method);
    if (field === null) {
      throw new MalformedMessageError(`no bytes belong to ${kind} of \`${printable(method)}\``, id);
    }
    const isObject = typeof members === 'object' && members !== null && Object.hasOwn(members, field);
    if (isObject && (members as Record<string, unknown>)[field] === '') return field;
    throw new MalformedMessageError(`\`${field}\` of a binary message must be an empty string`, id);
  }

  /**
   * Streams a response. A partial response cannot be taken back: when its source fails, the connection ends, so
   * that the client does not take it for a whole one.
   */
  async #stream(id: RequestId, result: StreamedResult): Promise<void> {
    try {
      const isBinary = this.takesBytes(result.expectedBytes);
      this.#checkSize(isBinary ? result.expectedBytes : base64Length(result.expectedBytes));
      await this.#outbox.sendStream((isBinary ? streamBinaryResult : streamResult)(id, result));
    } catch (error) {
      if (error instanceof RpcError) throw error;
      const reason = `a response could not be completed: ${(error as Error).message}`;
      this.close({ code: CloseCode.internalError, reason });
    } finally {
      // The response was sent or has failed; errors of closing the source do not matter.
      await result.rest.close().catch(() => {});
    }
  }

  /** Counts characters. In large responses these equal bytes. */
  #checkSize(length: number): void {
    const { maxResponseBytes = Number.POSITIVE_INFINITY } = this.#options;
    if (length <= maxResponseBytes) return;
    throw limitExceeded(
      `the response has ${length} bytes, the configured maximum is ${maxResponseBytes} (maxResponseBytes)`,
    );
  }

  #begin(message: LargeMessageDecoder): LargeMessage {
    return {
      add: (piece) => message.add(asBuffer(piece)),
      isUtf8: () => message.isUtf8(),
      end: () => this.#receive(() => message.decode(this.#options.limits)),
    };
  }

  #receive(decode: () => Message): void {
    if (this.#closed !== null) return;
    this.#receiveLimiter?.count();
    let message: Message;
    try {
      message = decode();
    } catch (error) {
      if (!(error instanceof MalformedMessageError)) throw error;
      this.#malformed(error);
      return;
    }
    this.#route(message);
  }

  #malformed(error: MalformedMessageError): void {
    if (this.#events?.malformed !== undefined) {
      this.#events.malformed(error.message);
      return;
    }
    this.#outbox.sendControl(encodeMalformed(error));
    if (++this.#malformedInARow !== MAX_MALFORMED_IN_A_ROW) return;
    const reason = `${MAX_MALFORMED_IN_A_ROW} malformed messages in a row`;
    this.#events?.tooManyMalformed?.(reason);
    this.close({ code: CloseCode.protocolError, reason });
  }

  #route(message: Message): void {
    this.#malformedInARow = 0;
    if (message.kind === 'request') this.#events?.request(message);
    else if (message.kind === 'notification') this.#events?.notification(message);
    else if (!this.#calls.settle(message)) this.#events?.unexpectedResponse(message);
  }

  #end(reason: CloseReason): void {
    if (this.#closed !== null) return;
    this.#closed = reason;
    this.#receiveLimiter?.stop();
    this.#outbox.close();
    this.#calls.fail(() => new ConnectionClosedError(reason));
    this.#events?.closed(reason);
  }
}

function encodedResult(id: RequestId, json: string): string {
  return `{"id":${id},"result":${json}}`;
}

/** The connection ended before the response arrived. */
export class ConnectionClosedError extends Error {
  override readonly name = 'ConnectionClosedError';
  readonly reason: CloseReason;

  constructor(reason: CloseReason) {
    super(`the connection is closed (${reason.code}${reason.reason === '' ? '' : `: ${reason.reason}`})`);
    this.reason = reason;
  }
}
