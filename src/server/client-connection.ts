import { setMaxListeners } from 'node:events';
import { withTimeout } from '../base/with-timeout.ts';
import { type NotificationMessage, type RequestMessage, UNREADABLE_ID } from '../protocol/envelope.ts';
import {
  internalError,
  invalidRequest,
  limitExceeded,
  printable,
  type RpcError,
} from '../protocol/errors.ts';
import { METHODS, type NotificationParamsOf, type ParamsOf, type ResultOf } from '../protocol/registry.ts';
import { RpcConnection } from '../rpc/connection.ts';
import { Dispatcher, type Slot } from '../rpc/dispatcher.ts';
import { LargeRequestDecoder } from '../rpc/large-request-decoder.ts';
import { type Handlers, invoke, type RoutedRequest, route } from '../rpc/router.ts';
import { CloseCode, type CloseReason, type Transport } from '../transport/transport.ts';
import { type Access, accessKey, isNewWork, readOnlyAccess, requireAccess } from './auth/access.ts';
import type { Principal } from './auth/principal.ts';
import { BusyPollClient } from './busy-poll.ts';
import { ConnectionTools } from './connection-tools.ts';
import { domainErrorToRpc } from './domain-errors.ts';
import { FINISH_TIMEOUT_MS, LAST_RESPONSES_TIMEOUT_MS } from './limits.ts';
import type { ConnectionRecords } from './records/records.ts';
import { grantedTtlMs } from './sessions/detached-ttl.ts';
import type { Session } from './sessions/session.ts';
import { refusedByDraining } from './sessions/session-registry.ts';
import type { ConnectionServices } from './shared-services.ts';

/** An open session. Its tools are created with the first request, because thousands of clients may be idle. */
interface Attachment {
  readonly session: Session;
  tools: ConnectionTools | null;
}

/**
 * One client: `initialize`, then `initialized`, then everything else. A request that comes too early gets an error. A message that
 * violates the protocol gets an error, and the connection is closed.
 */
export class ClientConnection {
  /** Resolves when the connection is closed, its session is detached and its files are closed. */
  readonly closed: Promise<CloseReason>;
  /** The identity of the client. */
  readonly principal: Principal;
  /** The rights of the principal, or fewer when the client has asked for that. */
  #access: Access;
  readonly #services: ConnectionServices;
  readonly #records: ConnectionRecords;
  readonly #connection: RpcConnection;
  readonly #dispatcher: Dispatcher;
  /** Aborts the running requests. Created with the first one. */
  #requests: AbortController | null = null;
  readonly #busyPoll: BusyPollClient;
  /** Closes the connection of a client that does not send `initialize`. */
  #initializeTimer: NodeJS.Timeout | null = null;
  #attachment: Attachment | null = null;
  #acknowledged = false;
  #responsesHeld = false;

  constructor(
    transport: Transport,
    services: ConnectionServices,
    principal: Principal,
    records: ConnectionRecords,
  ) {
    this.principal = principal;
    this.#access = principal.access;
    this.#records = records;
    const { config } = services;
    this.#services = services;
    this.#busyPoll = new BusyPollClient(services.fastPaths.busyPoll);
    this.#connection = new RpcConnection(transport, {
      limits: config,
      outboundHighWaterBytes: config.outboundHighWaterBytes,
      maxMessagesPerSecond: config.maxMessagesPerSecond,
      maxResponseBytes: Math.min(
        config.maxResponseBytes,
        transport.maxMessageBytes ?? config.maxResponseBytes,
      ),
      receiveLarge: (expectedBytes) => new LargeRequestDecoder(expectedBytes),
    });
    this.#dispatcher = new Dispatcher(config.concurrentRequests, config.maxRequestBytesInFlight, (open) =>
      this.#connection.setReceiving(open),
    );
    this.closed = new Promise((resolve) => this.#open(resolve));
    this.#awaitInitialize(config.initializeTimeoutMs);
  }

  /** Queue lengths, for metrics. */
  get load(): { readonly queued: number; readonly active: number; readonly outboundBytes: number } {
    const { queued, active } = this.#dispatcher;
    return { queued, active, outboundBytes: this.#connection.outboundBytes };
  }

  close(reason: CloseReason): void {
    this.#connection.close(reason);
  }

  /** Sends `server/draining` to a client that has asked for it. */
  announceDraining(draining: NotificationParamsOf<'server/draining'>): void {
    if (this.#attachment?.session.drainNotice) this.#connection.notify('server/draining', draining);
  }

  #open(onClosed: (reason: CloseReason) => void): void {
    this.#connection.open({
      request: (message) => this.#request(message),
      notification: (message) => this.#notification(message),
      unexpectedResponse: () => this.#violation('a response to a request that was never sent'),
      tooManyMalformed: (reason) => this.#services.log.warn('protocol violation', { reason }),
      bulk: (stopped) => {
        this.#attachment?.session.flowChanged();
        if (!stopped) this.#attachment?.session.policyDecisions.flush();
        this.#attachment?.tools?.setPaused(stopped);
      },
      responses: (stopped) => {
        this.#responsesHeld = stopped;
        this.#dispatcher.setHeld(stopped);
        this.#attachment?.tools?.setHeld(stopped);
      },
      ended: () => void this.#finish(),
      closed: (reason) => void this.#detach(reason).then(() => onClosed(reason)),
    });
  }

  /** Without this timeout an idle client would occupy a connection slot without a limit. */
  #awaitInitialize(timeoutMs: number): void {
    if (timeoutMs === 0) return;
    const reason = `no initialize within ${timeoutMs} ms (initializeTimeoutMs)`;
    this.#initializeTimer = setTimeout(
      () => this.close({ code: CloseCode.policyViolation, reason }),
      timeoutMs,
    );
  }

  #stopInitializeTimer(): void {
    if (this.#initializeTimer !== null) clearTimeout(this.#initializeTimer);
    this.#initializeTimer = null;
  }

  #request(message: RequestMessage): void {
    this.#busyPoll.requestReceived();
    try {
      const routed = route(message);
      if (routed.method === 'initialize') {
        const result = this.#initialize(routed.params as ParamsOf<'initialize'>);
        void this.#connection.respond(message.id, result);
        if (result.binaryMessages) this.#connection.useBytes();
        const draining = this.#services.draining();
        if (draining !== null) this.announceDraining(draining);
      } else {
        this.#submit(message, routed, this.#handlersFor(routed));
      }
    } catch (error) {
      this.#refuse(message, error);
    }
  }

  #initialize(params: ParamsOf<'initialize'>): ResultOf<'initialize'> {
    if (this.#attachment !== null) throw invalidRequest('initialize may only be sent once per connection');
    const { sessions, config, environmentInfo, sessionOpened, log } = this.#services;
    const { tokenId, revocableId, address, owner } = this.principal;
    this.#records.requireWritable();
    const access = params.capabilities?.readOnly
      ? readOnlyAccess(this.principal.access)
      : this.principal.access;
    const session =
      params.resumeSessionId == null
        ? sessions.create(
            accessKey(access),
            tokenId ?? address ?? undefined,
            owner,
            params.capabilities?.whileDraining,
          )
        : sessions.resume(params.resumeSessionId, accessKey(access), owner);
    if (params.detachedSessionTtlMs != null) {
      session.detachedTtlMs = grantedTtlMs(params.detachedSessionTtlMs, config);
    }
    this.#access = access;
    this.#stopInitializeTimer();
    this.#connection.peerInitialized();
    session.revocableId = revocableId;
    session.clientName = params.clientName;
    session.sharing = params.capabilities?.processSharing ?? false;
    session.drainNotice = params.capabilities?.drainNotice ?? false;
    session.lifecycleNotifications = params.capabilities?.lifecycleNotifications ?? false;
    session.processes.closed.reportsDropped = params.capabilities?.droppedProcesses ?? false;
    session.attach(this.#connection);
    this.#attachment = { session, tools: null };
    this.#records.attached(session.id, params.clientName, params.resumeSessionId != null);
    // The complete id would allow to resume the session.
    log.info('session attached', {
      session: session.id.slice(0, 8),
      client: printable(params.clientName),
      token: tokenId,
      address,
    });
    sessionOpened();
    const { reportsDropped, dropped } = session.processes.closed;
    const binaryMessages =
      (params.capabilities?.binaryMessages ?? false) && this.#connection.hasBinaryMessages;
    if (binaryMessages) this.#connection.acceptBytes();
    return {
      sessionId: session.id,
      environmentInfo: environmentInfo(),
      ...(binaryMessages && { binaryMessages }),
      ...(reportsDropped && dropped.length > 0 && { droppedProcesses: [...dropped] }),
    };
  }

  /** The handlers. Throws RpcError before the handshake is complete, and when the client may not call the method. */
  #handlersFor({ method, params }: RoutedRequest): Handlers {
    const { family } = METHODS[method];
    if (this.#attachment === null) {
      throw invalidRequest(`client must call initialize before using ${family} methods`);
    }
    if (!this.#acknowledged)
      throw invalidRequest(`client must send initialized before using ${family} methods`);
    requireAccess(this.#access, method, params);
    if (this.#attachment.session.refusesNewWork && isNewWork(method, params)) {
      throw refusedByDraining(`it refuses ${method} in new sessions`);
    }
    this.#attachment.tools ??= this.#makeTools(this.#attachment.session);
    return this.#attachment.tools.handlers;
  }

  #makeTools(session: Session): ConnectionTools {
    const tools = new ConnectionTools(this.#services, session, this.#access, this.#connection, this.#records);
    tools.setHeld(this.#responsesHeld);
    return tools;
  }

  #submit(message: RequestMessage, routed: RoutedRequest, handlers: Handlers): void {
    const { lane, subject } = routed;
    // Keep only these members: the message may hold much more than the validated params, and the request may wait long.
    const { id, method, trace, bytes } = message;
    if (lane === 'ordinary' && this.#dispatcher.overloads(bytes)) {
      throw limitExceeded(
        `requests of ${this.#services.config.maxRequestBytesInFlight} bytes wait for programs that do not read, the configured maximum (maxRequestBytesInFlight)`,
      );
    }
    const measured = this.#records.measure(method);
    const span = this.#records.traced(method, trace);
    const succeeded = () => {
      measured?.ended('success');
      span?.end('success');
    };
    const respond = (result: unknown): Promise<void> | undefined => {
      const sent = this.#connection.respond(id, result);
      this.#busyPoll.responseSent();
      // A streamed response may still turn out too large.
      if (sent !== undefined) return sent.then(succeeded);
      succeeded();
      return undefined;
    };
    const refuse = (error: unknown) => {
      measured?.ended('error');
      span?.end(this.#attachment === null ? 'disconnected' : 'error');
      this.#refuse({ id, method }, error);
    };
    const run = ({ park }: Slot): Promise<void> | undefined => {
      measured?.began();
      try {
        const context = {
          signal: this.#requestAborter().signal,
          trace: span?.context ?? null,
          bulk: routed.bulk,
          maxResultBytes: () => this.#connection.maxResultBytes(id),
          park,
        };
        const handle = () => invoke(handlers, routed, context);
        const result = span === undefined ? handle() : span.run(handle);
        // Responding may fail too: a result may be too large.
        if (result instanceof Promise) return result.then(respond).catch(refuse);
        return respond(result);
      } catch (error) {
        refuse(error);
        return undefined;
      }
    };
    this.#dispatcher.submit({ lane, subject, bytes, run, dropped: () => span?.end('disconnected') });
  }

  #requestAborter(): AbortController {
    if (this.#requests === null) {
      this.#requests = new AbortController();
      // Every waiting request adds a listener; the dispatcher bounds their number.
      setMaxListeners(0, this.#requests.signal);
    }
    return this.#requests;
  }

  #notification(message: NotificationMessage): void {
    if (message.method === 'initialized' && this.#attachment !== null) this.#acknowledged = true;
    else this.#violation(`unexpected notification \`${printable(message.method)}\``);
  }

  #violation(reason: string): void {
    const { config, log } = this.#services;
    log.warn('protocol violation', { reason });
    this.#connection.refuse(UNREADABLE_ID, invalidRequest(reason));
    if (!config.lenientNotifications) this.close({ code: CloseCode.policyViolation, reason });
  }

  #refuse({ id, method }: Pick<RequestMessage, 'id' | 'method'>, error: unknown): void {
    const refusal = this.#toRpcError(error, method);
    this.#records.refused(method, error, refusal);
    this.#connection.refuse(id, refusal);
    this.#busyPoll.responseSent();
  }

  /** An unknown error is a defect. Its details go to the log and not to the client. */
  #toRpcError(error: unknown, method: string): RpcError {
    const known = domainErrorToRpc(error);
    if (known !== null) return known;
    // The request was aborted; no client waits for the response.
    if (this.#requests?.signal.aborted && error === this.#requests.signal.reason)
      return internalError('the connection has ended');
    const details = error instanceof Error ? (error.stack ?? error.message) : String(error);
    this.#services.log.error('request failed', { method, details });
    return internalError('internal error; the server log has the details');
  }

  /**
   * The client has ended its input and still reads. Requests that wait for a program are answered with what is available. The others
   * may continue as long as responses and bodies make progress. Then the connection is closed.
   */
  async #finish(): Promise<void> {
    // Also requests that start later must find their signal aborted.
    this.#requestAborter().abort();
    let done = false;
    const allDone = Promise.race([this.#allAnswered(), this.closed])
      .then(() => {
        done = true;
      })
      .catch(() => {});
    const progress = () => this.#connection.answered + (this.#attachment?.tools?.piecesSent ?? 0);
    let before: number;
    do {
      before = progress();
      await withTimeout(allDone, LAST_RESPONSES_TIMEOUT_MS);
    } while (!done && progress() > before);
    if (!done) {
      this.#attachment?.tools?.abortAll();
      await withTimeout(allDone, FINISH_TIMEOUT_MS);
    }
    this.#connection.finish({ code: CloseCode.normal, reason: 'end of input' });
  }

  async #allAnswered(): Promise<void> {
    await this.#dispatcher.idle();
    await this.#attachment?.tools?.finish();
  }

  /** Detaches the session immediately. Closing files has a timeout, because it never ends on a dead mount. */
  async #detach({ code }: CloseReason): Promise<void> {
    this.#stopInitializeTimer();
    this.#dispatcher.clear();
    this.#requests?.abort();
    const attachment = this.#attachment;
    this.#attachment = null;
    if (attachment === null) return;
    const disposed = attachment.tools?.dispose().catch(() => {});
    const { sessions, config } = this.#services;
    sessions.detach(attachment.session, {
      isLost: !DELIBERATE.has(code),
      expiresAtMs: config.closeOnTokenExpiry ? this.principal.expiresAtMs : null,
    });
    if (disposed !== undefined) await withTimeout(disposed, FINISH_TIMEOUT_MS);
  }
}

/** The client has closed the connection, or may not have one. After all others it may come back. */
const DELIBERATE: ReadonlySet<number> = new Set([CloseCode.normal, CloseCode.policyViolation]);
