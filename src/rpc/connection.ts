import {
  decodeMessage,
  encodeError,
  encodeMalformed,
  encodeNotification,
  encodeRequest,
  encodeResult,
  type Message,
  type NotificationMessage,
  numericId,
  type RequestId,
  type RequestMessage,
} from '../protocol/envelope.ts';
import { RpcError } from '../protocol/errors.ts';
import { MalformedMessageError } from '../protocol/json-scan.ts';
import type { MessageLimits } from '../protocol/limits.ts';
import type { CloseReason, Transport } from '../transport/transport.ts';
import { MAX_PENDING_CALLS } from './limits.ts';
import { Outbox, type OutboxEvents } from './outbox.ts';

/** Who receives what the peer sends. */
export interface ConnectionEvents extends OutboxEvents {
  request(message: RequestMessage): void;
  notification(message: NotificationMessage): void;
  /** A response to something that was never asked. */
  unexpectedResponse(): void;
  /** The peer sends nothing more but still reads. */
  ended(): void;
  closed(reason: CloseReason): void;
}

/** Sizes of a connection. */
export interface ConnectionOptions {
  readonly limits: MessageLimits;
  readonly outboundHighWaterBytes: number;
}

interface PendingCall {
  resolve(result: unknown): void;
  reject(error: Error): void;
}

/** JSON-RPC over one transport: knows ids, never methods. Malformed input is answered here and the connection goes on. */
export class RpcConnection {
  readonly #transport: Transport;
  readonly #options: ConnectionOptions;
  readonly #outbox: Outbox;
  readonly #calls = new Map<RequestId, PendingCall>();
  #events: ConnectionEvents | null = null;
  #nextId = 1;
  #closed: CloseReason | null = null;

  constructor(transport: Transport, options: ConnectionOptions) {
    this.#transport = transport;
    this.#options = options;
    this.#outbox = new Outbox(transport, options.outboundHighWaterBytes, {
      bulk: (stopped) => this.#events?.bulk(stopped),
      answers: (stopped) => this.#events?.answers(stopped),
    });
  }

  /** Starts delivery; must be called once. */
  open(events: ConnectionEvents): void {
    this.#events = events;
    this.#transport.open({
      message: (text) => this.#receive(text),
      undecodable: (reason) => this.#outbox.sendControl(encodeMalformed(reason)),
      drained: () => this.#outbox.drained(),
      ended: () => events.ended(),
      closed: (reason) => this.#end(reason),
    });
  }

  /** Whether bulk data is waiting beyond the high-water mark. */
  get saturated(): boolean {
    return this.#outbox.saturated;
  }

  respond(id: RequestId, result: unknown): void {
    this.#outbox.sendControl(encodeResult(id, result));
  }

  refuse(id: RequestId, error: RpcError): void {
    this.#outbox.sendControl(encodeError(id, error));
  }

  notify(method: string, params?: unknown): void {
    this.#outbox.sendControl(encodeNotification(method, params));
  }

  /** Sends an encoded message in order with other bulk data and behind control messages. */
  sendBulk(message: Uint8Array): void {
    this.#outbox.sendBulk(message);
  }

  /** Asks the peer. Rejects with RpcError when it refuses and with Error when the connection ends first. */
  call(method: string, params?: unknown): Promise<unknown> {
    if (this.#closed !== null) return Promise.reject(new ConnectionClosedError(this.#closed));
    if (this.#calls.size >= MAX_PENDING_CALLS) {
      return Promise.reject(new Error(`${MAX_PENDING_CALLS} calls are unanswered`));
    }
    const id = numericId(this.#nextId++);
    return new Promise((resolve, reject) => {
      this.#calls.set(id, { resolve, reject });
      this.#outbox.sendControl(encodeRequest(id, method, params));
    });
  }

  /** Stops or resumes reading from the peer. */
  setReceiving(receiving: boolean): void {
    this.#transport.setReceiving(receiving);
  }

  close(reason: CloseReason): void {
    this.#transport.close(reason);
  }

  #receive(text: string): void {
    let message: Message;
    try {
      message = decodeMessage(text, this.#options.limits);
    } catch (error) {
      if (!(error instanceof MalformedMessageError)) throw error;
      this.#outbox.sendControl(encodeMalformed(error.message));
      return;
    }
    this.#route(message);
  }

  #route(message: Message): void {
    if (message.kind === 'request') this.#events?.request(message);
    else if (message.kind === 'notification') this.#events?.notification(message);
    else this.#settle(message);
  }

  #settle(message: Extract<Message, { kind: 'response' | 'error' }>): void {
    const call = this.#calls.get(message.id);
    if (call === undefined) {
      this.#events?.unexpectedResponse();
      return;
    }
    this.#calls.delete(message.id);
    if (message.kind === 'response') call.resolve(message.result);
    else call.reject(new RpcError(message.error.code, message.error.message, message.error.data));
  }

  #end(reason: CloseReason): void {
    this.#closed = reason;
    for (const call of this.#calls.values()) call.reject(new ConnectionClosedError(reason));
    this.#calls.clear();
    this.#events?.closed(reason);
  }
}

/** The connection ended before the answer came. */
export class ConnectionClosedError extends Error {
  override readonly name = 'ConnectionClosedError';
  readonly reason: CloseReason;

  constructor(reason: CloseReason) {
    super(`the connection is closed (${reason.code}${reason.reason === '' ? '' : `: ${reason.reason}`})`);
    this.reason = reason;
  }
}
