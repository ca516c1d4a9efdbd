import { encodeBase64 } from '../base/base64.ts';
import { bytesMemberOf } from '../protocol/bytes-members.ts';
import {
  type ErrorMessage,
  encodeRequest,
  numericId,
  type RequestId,
  type ResponseMessage,
  type Trace,
} from '../protocol/envelope.ts';
import { RpcError } from '../protocol/errors.ts';
import type { Transport } from '../transport/transport.ts';
import { MAX_PENDING_CALLS } from './limits.ts';
import type { Outbox, OutgoingMessage } from './outbox.ts';

/** Options of a call. */
export interface CallOptions {
  /** An abort rejects the call with the signal's reason. A later response is ignored. */
  readonly signal?: AbortSignal | undefined;
  /** Whether the call may use the one slot that is reserved for ending what other calls started. */
  readonly reserved?: boolean;
  /** The trace that the call belongs to. */
  readonly trace?: Trace | null;
  /** Called with the result when it arrives, before any later message is handled. It must not throw. */
  readonly received?: ((result: unknown) => void) | undefined;
}

interface PendingCall {
  readonly method: string;
  resolve(result: unknown): void;
  reject(error: Error): void;
  settled(): void;
}

/** The calls that this side of a connection makes, by id. */
export class OutgoingCalls {
  readonly #transport: Pick<Transport, 'inProcess' | 'maxUnansweredRequests'>;
  readonly #outbox: Pick<Outbox, 'sendControl'>;
  readonly #pending = new Map<RequestId, PendingCall>();
  /**
   * For a peer with a limit on unanswered requests: the requests it has not answered, and those that wait for it.
   */
  readonly #unanswered = new Set<RequestId>();
  readonly #waiting = new Map<RequestId, OutgoingMessage>();
  /** Whether so many bytes go in a binary message. */
  readonly #takesBytes: (length: number) => boolean;
  #nextId = 1;

  constructor(
    transport: Pick<Transport, 'inProcess' | 'maxUnansweredRequests'>,
    outbox: Pick<Outbox, 'sendControl'>,
    takesBytes: (length: number) => boolean,
  ) {
    this.#transport = transport;
    this.#outbox = outbox;
    this.#takesBytes = takesBytes;
  }

  /** See {@link RpcConnection.call}. */
  call(
    method: string,
    params: unknown,
    { signal, reserved = false, trace = null, received }: CallOptions,
  ): Promise<unknown> {
    // Within one process, calls beyond the limit wait here. On a network they are rejected.
    const { inProcess = false } = this.#transport;
    if (!inProcess && this.#pending.size >= MAX_PENDING_CALLS + (reserved ? 1 : 0))
      return Promise.reject(new TooManyCallsError());
    if (signal?.aborted) return Promise.reject(signal.reason);
    const id = numericId(this.#nextId++);
    return new Promise((resolve, reject) => {
      const abandon = () => {
        this.#pending.delete(id);
        this.#waiting.delete(id);
        reject(signal?.reason);
      };
      const settled = () => signal?.removeEventListener('abort', abandon);
      const request = this.#encode(id, method, params, trace);
      signal?.addEventListener('abort', abandon, { once: true });
      const resolveNow = (result: unknown) => {
        received?.(result);
        resolve(result);
      };
      this.#pending.set(id, { method, resolve: resolveNow, reject, settled });
      this.#send(id, request, reserved);
    });
  }

  /** The method of an open call; null for an unknown id. */
  methodOf(id: RequestId): string | null {
    return this.#pending.get(id)?.method ?? null;
  }

  /** Settles the call that a response answers. False when no call had its id; late and duplicate responses are ignored. */
  settle(message: ResponseMessage | ErrorMessage): boolean {
    this.#answered(message.id);
    const call = this.#pending.get(message.id);
    if (call === undefined) return this.#wasSent(message.id);
    this.#pending.delete(message.id);
    call.settled();
    if (message.kind === 'response') call.resolve(message.result);
    else call.reject(new RpcError(message.error.code, message.error.message, message.error.data));
    return true;
  }

  /** Rejects every open call. */
  fail(makeError: () => Error): void {
    if (this.#pending.size === 0) return;
    const error = makeError();
    const calls = [...this.#pending.values()];
    this.#pending.clear();
    this.#waiting.clear();
    for (const call of calls) {
      call.settled();
      call.reject(error);
    }
  }

  #encode(id: RequestId, method: string, params: unknown, trace: Trace | null): OutgoingMessage {
    const bytesParam = bytesMember(params);
    if (bytesParam === null) return encodeRequest(id, method, params, trace);
    const [field, bytes] = bytesParam;
    const { [field]: _, ...others } = params as Record<string, unknown>;
    const text = encodeRequest(id, method, { ...others, [field]: '' }, trace);
    if (this.#takesBytes(bytes.length) && bytesMemberOf('requests', method) === field) return { text, bytes };
    // Base64 needs no escaping. JSON.stringify would look at each of its characters.
    const at = text.lastIndexOf(`"${field}":""`) + field.length + 4;
    return `${text.slice(0, at)}${encodeBase64(bytes)}${text.slice(at)}`;
  }

  /** Sends a request, or queues it. A cleanup call does not wait: the peer may need it to answer the others. */
  #send(id: RequestId, request: OutgoingMessage, urgent: boolean): void {
    const { maxUnansweredRequests } = this.#transport;
    if (maxUnansweredRequests !== undefined) {
      if (this.#unanswered.size >= maxUnansweredRequests && !urgent) {
        this.#waiting.set(id, request);
        return;
      }
      this.#unanswered.add(id);
    }
    this.#outbox.sendControl(request);
  }

  /** Frees the slot of an answered request. Aborted calls count too, because the peer still works on them. */
  #answered(id: RequestId): void {
    if (!this.#unanswered.delete(id)) return;
    const [next] = this.#waiting;
    // Urgent calls may have taken the slot.
    if (next === undefined || this.#unanswered.size >= this.#transport.maxUnansweredRequests!) return;
    this.#waiting.delete(next[0]);
    this.#send(next[0], next[1], false);
  }

  /** Whether a call of this connection had the id. Ids are assigned in order. */
  #wasSent(id: RequestId): boolean {
    const number = Number(id);
    return number >= 1 && number < this.#nextId && id === numericId(number);
  }
}

/** The first member of an object that is bytes, with its key; null when there is none. */
function bytesMember(params: unknown): [string, Uint8Array] | null {
  if (typeof params !== 'object' || params === null) return null;
  for (const [key, value] of Object.entries(params)) if (value instanceof Uint8Array) return [key, value];
  return null;
}

/** Too many calls are open; one of them must be answered first. */
export class TooManyCallsError extends Error {
  override readonly name = 'TooManyCallsError';

  constructor() {
    super(`${MAX_PENDING_CALLS} calls are unanswered`);
  }
}
