import type { ErrorMessage, RequestMessage, ResponseMessage } from '../../protocol/envelope.ts';
import { UNREADABLE_ID } from '../../protocol/envelope.ts';
import { printable, RpcError, RpcErrorCode } from '../../protocol/errors.ts';
import { ConnectionClosedError, RpcConnection } from '../../rpc/connection.ts';
import { TooManyCallsError } from '../../rpc/outgoing-calls.ts';
import { CloseCode, type CloseReason, type Transport } from '../../transport/transport.ts';
import type { EnvironmentInfo } from '../backend.ts';
import { ClientError } from '../errors.ts';
import { MAX_JSON_DEPTH, MAX_JSON_VALUES } from '../limits.ts';
import type { Activity } from './activity.ts';
import { CallLimit } from './call-limit.ts';
import { describeClose, endedEarly, initialize } from './handshake.ts';
import type { DroppedProcess } from './server-messages.ts';
import { sendableTrace, type TraceSource } from './trace.ts';

/** Settings of a link. */
export interface LinkSettings {
  /** Opens a transport. It should stop when the signal aborts. */
  open(signal: AbortSignal): Promise<Transport>;
  readonly connectTimeoutMs: number;
  readonly initializeTimeoutMs: number;
  readonly maxMessageBytes: number;
  readonly clientName: string;
  /** Counts the calls that wait for an answer. */
  readonly activity: Activity;
  readonly detachedSessionTtlMs: number | undefined;
  readonly whileDraining: boolean;
  /** Returns the trace of a call; called when the call is sent. */
  readonly trace: TraceSource | undefined;
}

/** Callbacks of a link. */
export interface LinkEvents {
  /** Returns false when the params are invalid. */
  notification(method: string, params: unknown): boolean;
  /**
   * Handles a request of the server. Returns null for an unknown method. May reject with RpcError. The signal
   * aborts when the link ends.
   */
  request(method: string, params: unknown, signal: AbortSignal): Promise<unknown> | null;
  /** Called exactly once, when the link ends. */
  ended(end: LinkEnd): void;
}

/** How a link ended. */
export interface LinkEnd {
  readonly reason: string;
  /** Whether the server violated the protocol. */
  readonly protocolError: boolean;
  /** Whether pending calls may be sent again: false when one of them may have ended the link. */
  readonly retryable: boolean;
}

/** One physical connection: a transport, its pending calls, and the session that was opened or resumed on it. */
export class Link {
  readonly #connection: RpcConnection;
  readonly #transport: Transport;
  readonly #activity: Activity;
  readonly #events: LinkEvents;
  readonly #trace: TraceSource | undefined;
  /** Ids of the server's requests that are not answered yet. */
  readonly #serverRequests = new Set<string>();
  readonly #ending = new AbortController();
  #end: LinkEnd | null = null;
  #sessionId = '';
  #environmentInfo: EnvironmentInfo | null = null;
  #droppedProcesses: readonly DroppedProcess[] = [];
  #answered = 0;
  #received = 0;
  readonly #closed: Promise<void>;

  private constructor(transport: Transport, options: LinkSettings, events: LinkEvents) {
    this.#events = events;
    this.#transport = transport;
    this.#activity = options.activity;
    this.#trace = options.trace;
    const { maxMessageBytes } = options;
    this.#connection = new RpcConnection(transport, {
      limits: { maxMessageBytes, maxJsonDepth: MAX_JSON_DEPTH, maxJsonValues: MAX_JSON_VALUES },
      outboundHighWaterBytes: Number.POSITIVE_INFINITY,
      numbers: 'any',
    });
    this.#closed = new Promise((resolve) => {
      this.#connection.open({
        request: (message) => {
          this.#received++;
          void this.#answer(message);
        },
        notification: ({ method, params }) => {
          this.#received++;
          if (!events.notification(method, params))
            this.#failProtocol(`malformed params of \`${printable(method)}\``);
        },
        unexpectedResponse: (message) => this.#unexpected(message),
        malformed: (reason) => this.#failProtocol(reason),
        bulk: () => {},
        responses: () => {},
        ended: () =>
          this.#connection.close({ code: CloseCode.normal, reason: 'the server ended the stream' }),
        closed: (reason) => {
          this.#ended(reason);
          resolve();
        },
      });
    });
  }

  /** Opens a transport and a session on it. Rejects with a ClientError and leaves nothing open. */
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

  /** How the link ended; null while it is open. */
  get end(): LinkEnd | null {
    return this.#end;
  }

  get sessionId(): string {
    return this.#sessionId;
  }

  get environmentInfo(): EnvironmentInfo | null {
    return this.#environmentInfo;
  }

  get droppedProcesses(): readonly DroppedProcess[] {
    return this.#droppedProcesses;
  }

  /** Number of calls that were answered. */
  get answered(): number {
    return this.#answered;
  }

  /** Number of messages from the server, without answers that are errors. */
  get received(): number {
    return this.#received + this.#answered;
  }

  /**
   * Calls a method. Rejects with RpcError when the server answers with an error, with LinkEndedError when the link
   * ends first, and with the signal's reason.
   */
  async call(
    method: string,
    params: unknown,
    options: {
      readonly signal?: AbortSignal | undefined;
      readonly cleanup?: boolean;
      readonly received?: (result: unknown) => void;
    } = {},
  ): Promise<unknown> {
    if (this.#end !== null) throw new LinkEndedError(this.#end, false);
    const answered = this.#activity.begin();
    try {
      const { signal, cleanup: reserved = false, received } = options;
      const trace = sendableTrace(this.#trace);
      const result = await this.#connection.call(method, params, { signal, reserved, trace, received });
      this.#answered++;
      return result;
    } catch (error) {
      // When not even a cleanup call can be sent, the connection is dropped: the server then cleans up.
      if (error instanceof TooManyCallsError && options.cleanup)
        this.#lose('too many unanswered calls: a cleanup call could not be sent');
      if (
        this.#end === null ||
        !(error instanceof ConnectionClosedError || error instanceof TooManyCallsError)
      ) {
        throw error;
      }
      throw new LinkEndedError(this.#end, true);
    } finally {
      answered();
    }
  }

  /** From now on only calls and other waits keep Node running, not the connection. */
  unref(): void {
    this.#transport.unref?.();
  }

  /** Ends the link immediately, like a lost connection. */
  drop(reason: string): void {
    this.#lose(reason);
  }

  /** Closes the link with a close handshake. Resolves when it is closed. */
  async close(): Promise<void> {
    this.#connection.close({ code: CloseCode.normal, reason: 'the client is closed' });
    await this.#activity.during(this.#closed);
  }

  async #initialize(
    options: LinkSettings,
    resumeSessionId: string | null,
    signal: AbortSignal,
  ): Promise<void> {
    try {
      const result = await initialize(this.#connection, options, resumeSessionId, signal);
      this.#sessionId = result.sessionId;
      this.#environmentInfo = result.environmentInfo;
      this.#droppedProcesses = result.droppedProcesses;
    } catch (error) {
      throw error instanceof ConnectionClosedError ? endedEarly(error.reason, this.#end) : error;
    }
  }

  async #answer({ id, method, params }: RequestMessage): Promise<void> {
    if (!/^\d+$/.test(id)) return this.#failProtocol('the id of a request is not a number');
    if (this.#serverRequests.has(id)) return this.#failProtocol('two requests have the same id');
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

  /**
   * Ignores late answers. An error with the id of an unreadable request ends the link, because some call would wait
   * forever.
   */
  #unexpected(message: ResponseMessage | ErrorMessage): void {
    if (message.kind !== 'error' || message.id !== UNREADABLE_ID) return;
    this.#endWith({
      reason: `the server could not read a request: ${printable(message.error.message)}`,
      protocolError: false,
      retryable: false,
    });
  }

  #failProtocol(reason: string): void {
    this.#endWith({
      reason: `invalid message from the server: ${reason}`,
      protocolError: true,
      retryable: true,
    });
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
      reason: describeClose(reason),
      protocolError: false,
      retryable: !CAUSED_BY_A_MESSAGE.has(reason.code),
    };
    this.#ending.abort();
    this.#events.ended(this.#end);
  }
}

/** The link ended before the answer arrived. `sent` is false when the call was not even sent. */
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

/** Close codes caused by a message: sending the same message again would end the next connection too. */
const CAUSED_BY_A_MESSAGE: ReadonlySet<number> = new Set([
  CloseCode.protocolError,
  CloseCode.policyViolation,
  CloseCode.messageTooBig,
]);

/** Opens a transport within the connect timeout. Closes a transport that opens too late. */
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
    throw new ClientError('connectFailed', `cannot open the connection: ${message}`, {
      cause: error,
      retryable: true,
    });
  } finally {
    limit.end();
  }
}

function notImplemented(method: string): RpcError {
  const text = `exec-server client does not implement \`${printable(method)}\` yet`;
  return new RpcError(RpcErrorCode.methodNotFound, text);
}
