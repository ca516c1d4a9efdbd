import { setMaxListeners } from 'node:events';
import { withTimeout } from '../base/with-timeout.ts';
import type { ContentSearch } from '../files/search/content-search.ts';
import type { ProxyResources } from '../network/proxy/proxy-resources.ts';
import type { Logger } from '../observability/log.ts';
import { type NotificationMessage, type RequestMessage, UNREADABLE_ID } from '../protocol/envelope.ts';
import {
  internalError,
  invalidRequest,
  limitExceeded,
  printable,
  type RpcError,
} from '../protocol/errors.ts';
import { METHODS, type ParamsOf, type ResultOf } from '../protocol/registry.ts';
import { RpcConnection } from '../rpc/connection.ts';
import { Dispatcher, type Slot } from '../rpc/dispatcher.ts';
import { LargeRequestDecoder } from '../rpc/large-request-decoder.ts';
import { type Handlers, invoke, type RoutedRequest, route } from '../rpc/router.ts';
import type { SandboxEnforcer } from '../sandbox/sandbox-enforcer.ts';
import { CloseCode, type CloseReason, type Transport } from '../transport/transport.ts';
import { accessKey, requireAccess } from './auth/access.ts';
import type { Principal } from './auth/principal.ts';
import { BusyPollClient } from './busy-poll.ts';
import type { ExecServerConfig } from './config/config.ts';
import { domainErrorToRpc } from './domain-errors.ts';
import type { EnvironmentInfo } from './environment-info.ts';
import { capabilityHandlers } from './handlers/capability-handlers.ts';
import { environmentHandlers } from './handlers/environment-handlers.ts';
import { fileHandleHandlers } from './handlers/file-handle-handlers.ts';
import { fileHandlers } from './handlers/file-handlers.ts';
import { fileWatchHandlers } from './handlers/file-watch-handlers.ts';
import { httpHandlers } from './handlers/http-handlers.ts';
import { legacyHandlers } from './handlers/legacy-handlers.ts';
import { processHandlers } from './handlers/process-handlers.ts';
import { FINISH_TIMEOUT_MS, LAST_ANSWERS_TIMEOUT_MS } from './limits.ts';
import type { ConnectionRecords } from './records/records.ts';
import { ConnectionFiles, servedFiles } from './sessions/connection-files.ts';
import { ConnectionHttp, openHttpClient } from './sessions/connection-http.ts';
import type { Quotas } from './sessions/quotas.ts';
import type { Session } from './sessions/session.ts';
import type { SessionRegistry } from './sessions/session-registry.ts';

/** What a connection shares with the rest of the server. */
export interface ConnectionServices {
  readonly config: ExecServerConfig;
  readonly sessions: SessionRegistry;
  readonly quotas: Quotas;
  readonly sandboxEnforcer: SandboxEnforcer;
  readonly proxies: ProxyResources;
  search(): Promise<ContentSearch>;
  readonly log: Logger;
  environmentInfo(): EnvironmentInfo;
  /** Told of every new or resumed session. */
  sessionOpened(): void;
}

/** An open session, and what its client works with once it asks for something: thousands of clients may be idle. */
interface Attachment {
  readonly session: Session;
  tools: Tools | null;
}

interface Tools {
  readonly files: ConnectionFiles;
  readonly http: ConnectionHttp;
  readonly handlers: Handlers;
}

/**
 * One client: `initialize`, then `initialized`, then everything else. A request that comes too early is refused; what only a
 * broken client sends is answered with an error and ends the connection.
 */
export class ClientConnection {
  /** Resolves when the connection is gone, its session is detached and its files are closed. */
  readonly closed: Promise<CloseReason>;
  /** Who the client is. */
  readonly principal: Principal;
  readonly #services: ConnectionServices;
  readonly #records: ConnectionRecords;
  readonly #connection: RpcConnection;
  readonly #dispatcher: Dispatcher;
  readonly #requests = new AbortController();
  readonly #busyPoll = new BusyPollClient();
  /** Runs until the client has said who it is. */
  #introduction: NodeJS.Timeout | null = null;
  #attachment: Attachment | null = null;
  #acknowledged = false;
  #answersStopped = false;

  constructor(
    transport: Transport,
    services: ConnectionServices,
    principal: Principal,
    records: ConnectionRecords,
  ) {
    this.principal = principal;
    this.#records = records;
    const { config } = services;
    this.#services = services;
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
    // Every waiting request listens; their number is bounded by the dispatcher.
    setMaxListeners(0, this.#requests.signal);
    this.closed = new Promise((resolve) => this.#open(resolve));
    this.#awaitInitialize(config.initializeTimeoutMs);
  }

  /** What waits here, for metrics. */
  get load(): { readonly queued: number; readonly active: number; readonly outboundBytes: number } {
    const { queued, active } = this.#dispatcher;
    return { queued, active, outboundBytes: this.#connection.outboundBytes };
  }

  close(reason: CloseReason): void {
    this.#connection.close(reason);
  }

  #open(onClosed: (reason: CloseReason) => void): void {
    this.#connection.open({
      request: (message) => this.#request(message),
      notification: (message) => this.#notification(message),
      unexpectedResponse: () => this.#violation('a response to a request that was never sent'),
      bulk: (stopped) => {
        this.#attachment?.session.processes.setPaused(stopped);
        if (!stopped) this.#attachment?.session.policyDecisions.flush();
        this.#attachment?.tools?.files.setPaused(stopped);
        this.#attachment?.tools?.http.setPaused(stopped);
      },
      responses: (stopped) => {
        this.#answersStopped = stopped;
        this.#dispatcher.setHeld(stopped);
        this.#attachment?.tools?.files.setHeld(stopped);
        this.#attachment?.tools?.http.setHeld(stopped);
      },
      ended: () => void this.#finish(),
      closed: (reason) => void this.#detach().then(() => onClosed(reason)),
    });
  }

  /** A connection that never says what it wants would keep its place for ever. */
  #awaitInitialize(timeoutMs: number): void {
    if (timeoutMs === 0) return;
    const reason = `no initialize within ${timeoutMs} ms (initializeTimeoutMs)`;
    this.#introduction = setTimeout(() => this.close({ code: CloseCode.policyViolation, reason }), timeoutMs);
  }

  #introduced(): void {
    if (this.#introduction !== null) clearTimeout(this.#introduction);
    this.#introduction = null;
  }

  #request(message: RequestMessage): void {
    this.#busyPoll.requestReceived();
    try {
      const routed = route(message);
      if (routed.method === 'initialize') {
        void this.#connection.respond(message.id, this.#initialize(routed.params as ParamsOf<'initialize'>));
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
    const { access } = this.principal;
    this.#records.requireWritable();
    const session =
      params.resumeSessionId == null
        ? sessions.create(accessKey(access))
        : sessions.resume(params.resumeSessionId, accessKey(access));
    if (params.detachedSessionTtlMs != null) {
      session.detachedTtlMs = Math.min(params.detachedSessionTtlMs, config.detachedSessionTtlMs);
    }
    this.#introduced();
    session.lifecycleNotifications = params.capabilities?.lifecycleNotifications ?? false;
    session.attach(this.#connection);
    this.#attachment = { session, tools: null };
    this.#records.attached(session.id, params.clientName, params.resumeSessionId != null);
    // Whoever knows the whole id can resume the session.
    log.info('session attached', {
      session: session.id.slice(0, 8),
      client: printable(params.clientName),
      token: this.principal.tokenId,
      address: this.principal.address,
    });
    sessionOpened();
    return { sessionId: session.id, environmentInfo: environmentInfo() };
  }

  /** Made with the first request. */
  #makeTools(session: Session): Tools {
    const { quotas, search, config, environmentInfo, sandboxEnforcer, proxies, log } = this.#services;
    const { access } = this.principal;
    const files = new ConnectionFiles(
      this.#connection,
      search,
      () => quotas.enterFileHandle(),
      access.restrict(servedFiles(config.nativeSpawn)),
      sandboxEnforcer.files(access.below),
    );
    const http = new ConnectionHttp(this.#connection, {
      client: () => openHttpClient(config),
      maxBodyBytes: config.maxHttpBodyBytes,
    });
    const services = {
      config,
      session,
      files,
      http,
      quotas,
      sandboxEnforcer,
      proxies,
      log,
      environmentInfo,
      connection: this.#connection,
      records: this.#records,
    };
    files.setHeld(this.#answersStopped);
    http.setHeld(this.#answersStopped);
    const handlers = this.#records.recorded({
      ...environmentHandlers(services),
      ...capabilityHandlers(services),
      ...processHandlers(services),
      ...fileHandlers(services),
      ...fileHandleHandlers(services),
      ...fileWatchHandlers(services),
      ...httpHandlers(services),
      ...legacyHandlers(services),
    });
    return { files, http, handlers };
  }

  /** The handlers, once the handshake is complete and if the client may call the method. */
  #handlersFor({ method, params }: RoutedRequest): Handlers {
    const { family } = METHODS[method];
    if (this.#attachment === null) {
      throw invalidRequest(`client must call initialize before using ${family} methods`);
    }
    if (!this.#acknowledged)
      throw invalidRequest(`client must send initialized before using ${family} methods`);
    requireAccess(this.principal.access, method, params);
    this.#attachment.tools ??= this.#makeTools(this.#attachment.session);
    return this.#attachment.tools.handlers;
  }

  #submit(message: RequestMessage, routed: RoutedRequest, handlers: Handlers): void {
    const { lane, subject } = routed;
    // The message itself is let go: what it held beyond the validated params would wait along with a request that waits.
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
      // One that is streamed may still prove too large.
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
          signal: this.#requests.signal,
          trace: span?.context ?? null,
          bulk: routed.bulk,
          maxResultBytes: () => this.#connection.maxResultBytes(id),
          park,
        };
        const handle = () => invoke(handlers, routed, context);
        const result = span === undefined ? handle() : span.run(handle);
        // An answer may fail too: one that is too large cannot be encoded.
        if (result instanceof Promise) return result.then(respond).catch(refuse);
        return respond(result);
      } catch (error) {
        refuse(error);
        return undefined;
      }
    };
    this.#dispatcher.submit({ lane, subject, bytes, run, dropped: () => span?.end('disconnected') });
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

  /** An error that nobody foresaw is a defect: the log gets the details, the client does not. */
  #toRpcError(error: unknown, method: string): RpcError {
    const known = domainErrorToRpc(error);
    if (known !== null) return known;
    // Nobody waits for the answer of a request that was given up.
    if (error === this.#requests.signal.reason) return internalError('the connection has ended');
    const details = error instanceof Error ? (error.stack ?? error.message) : String(error);
    this.#services.log.error('request failed', { method, details });
    return internalError('internal error; the server log has the details');
  }

  /**
   * The client says nothing more and still reads. Requests that wait for a program are answered with what there is, the others for
   * as long as answers and bodies come; then the connection ends.
   */
  async #finish(): Promise<void> {
    this.#requests.abort();
    let over = false;
    const everything = Promise.race([this.#everythingAnswered(), this.closed])
      .then(() => {
        over = true;
      })
      .catch(() => {});
    const progress = () => this.#connection.answered + (this.#attachment?.tools?.http.piecesSent ?? 0);
    let before: number;
    do {
      before = progress();
      await withTimeout(everything, LAST_ANSWERS_TIMEOUT_MS);
    } while (!over && progress() > before);
    if (!over) {
      this.#attachment?.tools?.http.abortAll();
      await withTimeout(everything, FINISH_TIMEOUT_MS);
    }
    this.#connection.finish({ code: CloseCode.normal, reason: 'end of input' });
  }

  async #everythingAnswered(): Promise<void> {
    await this.#dispatcher.idle();
    await this.#attachment?.tools?.http.finish();
  }

  /** The session is detached at once; open files get a moment to be closed, which a dead mount may keep for ever. */
  async #detach(): Promise<void> {
    this.#introduced();
    this.#dispatcher.clear();
    this.#requests.abort();
    const attachment = this.#attachment;
    this.#attachment = null;
    if (attachment === null) return;
    this.#services.sessions.detach(attachment.session);
    attachment.tools?.http.dispose();
    const disposed = attachment.tools?.files.dispose().catch(() => {});
    if (disposed !== undefined) await withTimeout(disposed, FINISH_TIMEOUT_MS);
  }
}
