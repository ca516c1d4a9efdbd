import type { ErrorMessage, RequestMessage, ResponseMessage } from '../../protocol/envelope.ts';
import { UNREADABLE_ID } from '../../protocol/envelope.ts';
import { printable, RpcError, RpcErrorCode } from '../../protocol/errors.ts';
import { ConnectionClosedError, RpcConnection, TooManyCallsError } from '../../rpc/connection.ts';
import { CloseCode, type CloseReason, type Transport } from '../../transport/transport.ts';
import type { EnvironmentInfo } from '../backend.ts';
import { CallLimit } from '../call-limit.ts';
import { ClientError } from '../errors.ts';
import { MAX_JSON_DEPTH, MAX_JSON_VALUES } from '../limits.ts';
import { protocolError, readInitializeResult } from './server-messages.ts';
import { sendableTrace, type TraceSource } from './trace.ts';

/** What a link is opened with. */
export interface LinkSettings {
  /** Opens a transport; it should stop when the signal aborts. */
  open(signal: AbortSignal): Promise<Transport>;
  readonly connectTimeoutMs: number;
  readonly initializeTimeoutMs: number;
  readonly maxMessageBytes: number;
  readonly clientName: string;
  readonly detachedSessionTtlMs: number | undefined;
  /** The trace that a call is part of, asked when it is sent. */
  readonly trace: TraceSource | undefined;
}

/** What a link tells its owner. */
export interface LinkEvents {
  /** False when the params make no sense. */
  notification(method: string, params: unknown): boolean;
  /**
   * Answers a request of the server; null when there is no such method here. It may reject with RpcError. The signal is aborted when
   * the link ends.
   */
  request(method: string, params: unknown, signal: AbortSignal): Promise<unknown> | null;
  /** The end, exactly once. */
  ended(end: LinkEnd): void;
}

/** How a link ended. */
export interface LinkEnd {
  readonly reason: string;
  /** Whether the server sent what no server may send. */
  readonly protocolError: boolean;
  /** Whether calls under way may be sent again: not when one of them may be what ended the link. */
  readonly retryable: boolean;
}

/** One physical connection: a transport, its calls, and the session that was opened or resumed on it. */
export class Link {
  readonly #connection: RpcConnection;
  readonly #events: LinkEvents;
  readonly #trace: TraceSource | undefined;
  /** The server's requests that are not answered yet. */
  readonly #serverRequests = new Set<string>();
  readonly #ending = new AbortController();
  #end: LinkEnd | null = null;
  #sessionId = '';
  #environmentInfo: EnvironmentInfo | null = null;
  #answered = 0;
  readonly #closed: Promise<void>;

  private constructor(transport: Transport, options: LinkSettings, events: LinkEvents) {
    this.#events = events;
    this.#trace = options.trace;
    const { maxMessageBytes } = options;
    this.#connection = new RpcConnection(transport, {
      limits: { maxMessageBytes, maxJsonDepth: MAX_JSON_DEPTH, maxJsonValues: MAX_JSON_VALUES },
      outboundHighWaterBytes: Number.POSITIVE_INFINITY,
      numbers: 'any',
    });
    this.#closed = new Promise((resolve) => {
      this.#connection.open({
        request: (message) => void this.#answer(message),
        notification: ({ method, params }) => {
          if (!events.notification(method, params))
            this.#failProtocol(`\`${printable(method)}\` cannot be read`);
        },
        unexpectedResponse: (message) => this.#unexpected(message),
        malformed: (reason) => this.#failProtocol(reason),
        bulk: () => {},
        answers: () => {},
        ended: () => this.#connection.close({ code: CloseCode.normal, reason: 'the server has ended' }),
        closed: (reason) => {
          this.#ended(reason);
          resolve();
        },
      });
    });
  }

  /** Opens a transport and a session on it. Rejects with a ClientError; nothing is left open then. */
  static async open(
    options: LinkSettings,
    resumeSessionId: string | null,
    events: LinkEvents,
    signal: AbortSignal,
  ): Promise<Link> {
    const transport = await openTransport(options, signal);
    const link = new Link(transport, options, events);
    try {
      await link.#initialize(options, resumeSessionId, signal);
      return link;
    } catch (error) {
      link.#connection.abandon({ code: CloseCode.normal, reason: 'the session was not opened' });
      throw error;
    }
  }

  /** Null while the link is open. */
  get end(): LinkEnd | null {
    return this.#end;
  }

  get sessionId(): string {
    return this.#sessionId;
  }

  get environmentInfo(): EnvironmentInfo | null {
    return this.#environmentInfo;
  }

  /** How many calls were answered. */
  get answered(): number {
    return this.#answered;
  }

  /** Rejects with RpcError when the server refuses, LinkEndedError when the link ends first, and what the signal says. */
  async call(
    method: string,
    params: unknown,
    options: { readonly signal?: AbortSignal | undefined; readonly cleanup?: boolean } = {},
  ): Promise<unknown> {
    if (this.#end !== null) throw new LinkEndedError(this.#end, false);
    try {
      const { signal, cleanup: reserved = false } = options;
      const trace = sendableTrace(this.#trace);
      const result = await this.#connection.call(method, params, { signal, reserved, trace });
      this.#answered++;
      return result;
    } catch (error) {
      // What cannot be ended by a call is ended with the connection: the server cleans up then.
      if (error instanceof TooManyCallsError && options.cleanup)
        this.#lose('no call could be sent to clean up');
      if (
        this.#end === null ||
        !(error instanceof ConnectionClosedError || error instanceof TooManyCallsError)
      ) {
        throw error;
      }
      throw new LinkEndedError(this.#end, true);
    }
  }

  /** Ends the link for its owner at once, as a lost connection does. */
  drop(reason: string): void {
    this.#lose(reason);
  }

  /** Ends the link politely; resolves when it is gone. */
  async close(): Promise<void> {
    this.#connection.close({ code: CloseCode.normal, reason: 'the client is closed' });
    await this.#closed;
  }

  async #initialize(
    options: LinkSettings,
    resumeSessionId: string | null,
    signal: AbortSignal,
  ): Promise<void> {
    const { clientName, detachedSessionTtlMs, initializeTimeoutMs } = options;
    const params = {
      clientName,
      resumeSessionId,
      ...(detachedSessionTtlMs !== undefined && { detachedSessionTtlMs }),
    };
    const limit = new CallLimit(
      'the handshake',
      { signal, timeoutMs: initializeTimeoutMs },
      { kind: 'initializeTimeout', hint: 'check that it is an exec-server, or raise `initializeTimeoutMs`' },
    );
    try {
      const result = readInitializeResult(
        await this.#connection.call('initialize', params, { signal: limit.signal }),
      );
      if (resumeSessionId !== null && result.sessionId !== resumeSessionId) {
        throw protocolError('another session than the one to resume');
      }
      this.#sessionId = result.sessionId;
      this.#environmentInfo = result.environmentInfo;
      this.#connection.notify('initialized', {});
    } catch (error) {
      throw this.#handshakeError(error);
    } finally {
      limit.end();
    }
  }

  #handshakeError(error: unknown): unknown {
    if (error instanceof RpcError) return refusedSession(error);
    if (!(error instanceof ConnectionClosedError)) return error;
    if (this.#end?.protocolError) {
      // One garbled message is no proof that it is another server.
      return protocolError(`no answer to \`initialize\` but this: ${this.#end.reason}`, { retryable: true });
    }
    return new ClientError(
      'disconnected',
      `the connection ended during the handshake: ${describe(error.reason)}`,
      {
        retryable: true,
        hint: 'the server may be starting or ending; try again',
      },
    );
  }

  async #answer({ id, method, params }: RequestMessage): Promise<void> {
    if (!/^\d+$/.test(id)) return this.#failProtocol('the id of a request is not a number');
    if (this.#serverRequests.has(id)) return this.#failProtocol('two requests have one id');
    this.#serverRequests.add(id);
    try {
      const answering = this.#events.request(method, params, this.#ending.signal);
      if (answering === null) throw notImplemented(method);
      await this.#connection.respond(id, await answering);
    } catch (error) {
      if (!(error instanceof RpcError)) throw error;
      this.#connection.refuse(id, error);
    } finally {
      this.#serverRequests.delete(id);
    }
  }

  /** Late answers are nobody's business; but when the server could not read a request, some call waits in vain. */
  #unexpected(message: ResponseMessage | ErrorMessage): void {
    if (message.kind !== 'error' || message.id !== UNREADABLE_ID) return;
    this.#endWith({
      reason: `the server could not read a request: ${printable(message.error.message)}`,
      protocolError: false,
      retryable: false,
    });
  }

  #failProtocol(reason: string): void {
    this.#endWith({ reason: `the server sent nonsense: ${reason}`, protocolError: true, retryable: true });
  }

  #lose(reason: string): void {
    this.#endWith({ reason, protocolError: false, retryable: true });
  }

  #endWith(end: LinkEnd): void {
    if (this.#end !== null) return;
    this.#end = end;
    this.#ending.abort();
    this.#connection.abandon({
      code: end.protocolError ? CloseCode.protocolError : CloseCode.normal,
      reason: end.reason,
    });
    this.#events.ended(end);
  }

  #ended(reason: CloseReason): void {
    if (this.#end !== null) return;
    this.#end = {
      reason: describe(reason),
      protocolError: false,
      retryable: !CAUSED_BY_A_MESSAGE.has(reason.code),
    };
    this.#ending.abort();
    this.#events.ended(this.#end);
  }
}

/** The link ended before the answer came, or before the call was even sent. */
export class LinkEndedError extends Error {
  override readonly name = 'LinkEndedError';
  readonly end: LinkEnd;
  readonly sent: boolean;

  constructor(end: LinkEnd, sent: boolean) {
    super(end.reason);
    this.end = end;
    this.sent = sent;
  }
}

/** Codes of a close because of something that was sent: the same again would end the same way. */
const CAUSED_BY_A_MESSAGE: ReadonlySet<number> = new Set([
  CloseCode.protocolError,
  CloseCode.policyViolation,
  CloseCode.messageTooBig,
]);

/** A transport that opens too late is closed. */
async function openTransport(options: LinkSettings, signal: AbortSignal): Promise<Transport> {
  const limit = new CallLimit(
    'connecting',
    { signal, timeoutMs: options.connectTimeoutMs },
    { kind: 'connectTimeout', hint: 'check the address and the network, or raise `connectTimeoutMs`' },
  );
  const limited = limit.signal!;
  try {
    limited.throwIfAborted();
    const opening = options.open(limited);
    opening.then(
      (transport) => {
        if (limited.aborted) transport.close({ code: CloseCode.normal, reason: 'too late' });
      },
      () => {},
    );
    return await limit.race(opening);
  } catch (error) {
    if (error instanceof ClientError) throw error;
    const message = error instanceof Error ? error.message : String(error);
    throw new ClientError('connectFailed', `the connection could not be opened: ${message}`, {
      cause: error,
      retryable: true,
    });
  } finally {
    limit.end();
  }
}

function refusedSession(error: RpcError): ClientError {
  const attached = error.code === RpcErrorCode.sessionAttached;
  return new ClientError('server', `the server refused the session: ${error.message}`, {
    code: error.code,
    data: error.data,
    cause: error,
    retryable: attached,
    ...(attached && { hint: 'another client uses it, or its lost connection has not been noticed yet' }),
  });
}

function notImplemented(method: string): RpcError {
  const text = `exec-server client does not implement \`${printable(method)}\` yet`;
  return new RpcError(RpcErrorCode.methodNotFound, text);
}

function describe({ code, reason }: CloseReason): string {
  if (reason !== '') return `${reason} (${code})`;
  return code === CloseCode.abnormal
    ? 'the connection was cut'
    : `the server closed the connection (${code})`;
}
