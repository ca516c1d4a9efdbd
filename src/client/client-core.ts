import { withTimeout } from '../base/with-timeout.ts';
import type {
  CallParamsOf,
  Method,
  Notification,
  NotificationParamsOf,
  ResultOf,
} from '../protocol/registry.ts';
import type { CallOptions, EnvironmentInfo, ExecBackend, ExecProcess, ExecutorHttp } from './backend.ts';
import { Activity } from './connection/activity.ts';
import { withBase64 } from './connection/bytes.ts';
import { asClientError, lostCall, protocolFailure } from './connection/call-errors.ts';
import { CallLimit } from './connection/call-limit.ts';
import { CallRetries, rulesOf } from './connection/call-rules.ts';
import { type ClientState, ClientStatus, closedByOwner } from './connection/client-status.ts';
import { keepAlive } from './connection/keep-alive.ts';
import { Link, type LinkEnd, LinkEndedError, type LinkEvents, type LinkSettings } from './connection/link.ts';
import { NotificationListeners } from './connection/notification-listeners.ts';
import { durationOrNone, expectFunction } from './connection/option-checks.ts';
import { PolicyRequests } from './connection/policy-requests.ts';
import { attemptUntil, reconnectBackoff } from './connection/reconnect.ts';
import { lostConnection, notRecovered } from './connection/recovery-errors.ts';
import { type Capabilities, capabilitiesOf, type DroppedProcess } from './connection/server-messages.ts';
import {
  checkNumbers,
  type KeepAliveOptions,
  type SessionOptions,
  type TransportSource,
} from './connection/session-options.ts';
import { type ClientError, withCallerStack } from './errors.ts';
import { HttpBodies } from './http/http-bodies.ts';
import { RemoteHttp } from './http/remote-http.ts';
import {
  CONNECT_TIMEOUT_MS,
  END_UNWANTED_MS,
  GOOD_CONNECTION_MS,
  INITIALIZE_TIMEOUT_MS,
  MAX_MESSAGE_BYTES,
  MAX_PROTOCOL_ERRORS,
  RECOVERY_WINDOW_MS,
  UNLIMITED_TTL,
} from './limits.ts';
import type { RunResult } from './process/output-collector.ts';
import type { ClientHost } from './process/process-host.ts';
import { ProcessRoutes } from './process/process-routes.ts';
import type { Command } from './process/program-options.ts';
import { RemoteBackend } from './process/remote-backend.ts';
import { RemoteProcesses } from './process/remote-processes.ts';
import { type RunOptions, runProgram } from './process/run.ts';
import { type SpawnOptions, spawnProgram } from './process/spawn.ts';
import { Recordings } from './recordings.ts';
import type { AttachOptions, SharedProcesses } from './sharing.ts';
import { type PortListener, PortWatch } from './tcp/port-watch.ts';
import { TcpStreams } from './tcp/tcp-streams.ts';

/** A session with a server that survives lost connections. Independent of how connections are opened. */
export class ClientCore {
  readonly #activity = new Activity();
  /** Starts processes on the server. */
  readonly backend: ExecBackend;
  /** Lists the processes of the server and attaches to them, whichever client started them. */
  readonly processes: SharedProcesses;
  /** Lists and reads the recordings of processes. */
  readonly recordings: Recordings;
  /** Sends HTTP requests from the server's network. */
  readonly http: ExecutorHttp;
  readonly #backend: RemoteBackend;
  readonly #options: LinkSettings & { readonly resumable: boolean; readonly recoveryWindowMs: number };
  readonly #routes = new ProcessRoutes();
  readonly #bodies: HttpBodies;
  /** TCP connections from the server's network. */
  protected readonly tcp: TcpStreams = new TcpStreams(this, this.#activity);
  readonly #policyRequests: PolicyRequests;
  readonly #status = new ClientStatus();
  readonly #notifications = new NotificationListeners(this.#activity);
  readonly #backoff = reconnectBackoff();
  /** Aborted by `close`. */
  readonly #closing = new AbortController();
  #link: Link | null = null;
  #linkSince = 0;
  #answeredBefore = 0;
  #protocolErrors = 0;
  #sessionId = '';
  #environmentInfo: EnvironmentInfo | null = null;
  #fetchedInfo: EnvironmentInfo | null = null;
  #capabilities: Capabilities = {};
  #droppedProcesses: readonly DroppedProcess[] = [];

  /** Throws ClientError of kind `config` for an invalid number. */
  protected constructor(source: TransportSource, options: SessionOptions & KeepAliveOptions) {
    checkNumbers(options);
    const { recoveryWindowMs, detachedSessionTtlMs } = options;
    this.#options = {
      open: (signal) => source.open(signal),
      resumable: source.resumable,
      connectTimeoutMs: options.connectTimeoutMs ?? CONNECT_TIMEOUT_MS,
      initializeTimeoutMs: options.initializeTimeoutMs ?? INITIALIZE_TIMEOUT_MS,
      recoveryWindowMs:
        durationOrNone('recoveryWindowMs', recoveryWindowMs, Number.POSITIVE_INFINITY) ?? RECOVERY_WINDOW_MS,
      maxMessageBytes: options.maxMessageBytes ?? MAX_MESSAGE_BYTES,
      activity: this.#activity,
      clientName: options.clientName ?? 'exec-server-client',
      detachedSessionTtlMs: durationOrNone('detachedSessionTtlMs', detachedSessionTtlMs, UNLIMITED_TTL),
      whileDraining: options.whileDraining === true,
      trace: options.trace,
    };
    this.#policyRequests = new PolicyRequests((id) =>
      this.#routes.policyHandlerOf(id, options.onNetworkPolicyRequest),
    );
    const core = this;
    const host: ClientHost = {
      get capabilities() {
        return core.capabilities;
      },
      info: (callOptions) => core.info(callOptions),
      call: (method, params, callOptions) => core.call(method, params, callOptions),
      usableLink: (signal) => core.#usableLink(signal),
      routes: this.#routes,
      activity: this.#activity,
    };
    this.#backend = new RemoteBackend(host);
    this.backend = this.#backend;
    this.processes = new RemoteProcesses(host);
    this.recordings = new Recordings(host);
    this.#bodies = new HttpBodies(this.#activity);
    this.http = new RemoteHttp(this, this.#bodies);
  }

  /** Opens the first connection. */
  protected async start({ resumeSessionId, signal }: SessionOptions): Promise<void> {
    try {
      const link = await this.#openLink(resumeSessionId ?? null, signal ?? new AbortController().signal);
      this.#sessionId = link.sessionId;
      this.#install(link);
    } catch (error) {
      throw withCallerStack(error);
    }
  }

  /**
   * Runs a command to its end and returns its exit code and output. A failed program is a result, not an error. Rejects when the
   * command cannot be started or followed, and then terminates it if possible.
   */
  run(command: Command, options?: RunOptions): Promise<RunResult> {
    return runProgram(this, command, options);
  }

  /** Starts a command and returns its process. It ends with the session, unless it is detached. */
  spawn(command: Command, options?: SpawnOptions): Promise<ExecProcess> {
    return spawnProgram(this, command, options);
  }

  /** Probes the server at an interval and drops a connection that does not answer in time. */
  protected keepAlive(intervalMs: number, timeoutMs: number): void {
    if (intervalMs === 0) return;
    const stop = keepAlive(() => this.#link, intervalMs, timeoutMs);
    this.onStateChange((state) => {
      if (state === 'closed' || state === 'failed') stop();
    });
  }

  get state(): ClientState {
    return this.#status.state;
  }

  /** Why the client is not connected; null while it is. */
  get failure(): ClientError | null {
    return this.#status.failure;
  }

  /** Pass it as `resumeSessionId` to resume the session with another client. */
  get sessionId(): string {
    return this.#sessionId;
  }

  /** The server's description of itself from the last handshake; null when it sent none. */
  get environmentInfo(): EnvironmentInfo | null {
    return this.#environmentInfo;
  }

  /** The server's description of itself. Asks for it once if the handshake had none. */
  async info(options: CallOptions = {}): Promise<EnvironmentInfo> {
    const known = this.#environmentInfo ?? this.#fetchedInfo;
    if (known !== null) return known;
    this.#fetchedInfo = await this.call('environment/info', null, options);
    return this.#fetchedInfo;
  }

  /**
   * Closed processes of a resumed session that the server dropped while they waited for a client, because it keeps a
   * limited amount. Empty on servers without the capability `droppedProcesses`.
   */
  get droppedProcesses(): readonly DroppedProcess[] {
    return this.#droppedProcesses;
  }

  /** The server's capabilities. A missing flag means false. */
  get capabilities(): Capabilities {
    return this.#capabilities;
  }

  /** Whether a base64 parameter may be a Uint8Array. The connection encodes it where it does not carry bytes. */
  readonly takesBytes = true;

  /** Calls the listener after every change of {@link state}. Returns a function that removes the listener. */
  onStateChange(listener: (state: ClientState, failure: ClientError | null) => void): () => void {
    expectFunction('listener', listener);
    return this.#status.onChange(listener);
  }

  /**
   * Calls the listener with each notification of that name. Events of processes that {@link backend} started are
   * excluded: read them from the process. The params are not validated. Returns a function that removes the
   * listener.
   */
  onNotification<N extends Notification>(
    method: N,
    listener: (params: NotificationParamsOf<N>) => void,
  ): () => void {
    expectFunction('listener', listener);
    return this.#notifications.add(method, listener as (params: unknown) => void);
  }

  /**
   * Calls a method. During a recovery calls wait. Calls that only read are retried when their answer was lost. The
   * result is not validated: its type is the server's promise.
   */
  async call<M extends Method>(
    method: M,
    params: CallParamsOf<M>,
    options: CallOptions = {},
  ): Promise<ResultOf<M>> {
    return withBase64('results', method, await this.callForBytes(method, params, options)) as ResultOf<M>;
  }

  /** Like {@link call}, for a caller that takes the large base64 member of a result also as a Uint8Array. */
  async callForBytes<M extends Method>(
    method: M,
    params: CallParamsOf<M>,
    options: CallOptions = {},
  ): Promise<ResultOf<M>> {
    const rules = rulesOf(method, params);
    const timeoutMs = options.timeoutMs ?? rules.timeoutMs;
    const limit = new CallLimit(`\`${method}\``, { signal: options.signal, timeoutMs });
    try {
      for (const retries = new CallRetries(); ; ) {
        if (rules.failFast && this.state === 'recovering') throw this.#status.reason;
        const link = await this.#usableLink(limit.signal);
        const sentAt = performance.now();
        try {
          const result = await link.call(method, params, { signal: limit.signal, cleanup: rules.cleanup });
          return result as ResultOf<M>;
        } catch (error) {
          if (!(error instanceof LinkEndedError)) throw asClientError(error, method);
          if (this.state === 'closed') throw closedByOwner();
          if (!error.sent) continue;
          if (!rules.retryable) throw lostCall(method, error.end);
          if (retries.allowAfter(error.end, sentAt)) continue;
          throw error.end.protocolError ? protocolFailure(method, error.end) : lostCall(method, error.end);
        }
      }
    } catch (error) {
      throw withCallerStack(error);
    } finally {
      limit.end();
    }
  }

  /** Attaches to a running or ended process by its reference, or else by its name. */
  attach(refOrName: string, options?: AttachOptions): Promise<ExecProcess> {
    return this.processes.attach(refOrName, options);
  }

  /** Closes the client, see {@link close}. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /**
   * Calls the listener with the TCP ports that the owner's processes listen on: now, and after each change. It continues after a
   * recovery of the connection.
   */
  watchPorts(listener: PortListener): Promise<PortWatch> {
    return PortWatch.open(this, listener);
  }

  /**
   * Closes the connection. Processes keep running for as long as the server keeps the session. Programs whose start was aborted or not
   * answered are terminated first, for which this waits up to 2 s.
   */
  async close(): Promise<void> {
    const ending = this.#backend.endUnwanted();
    if (ending !== null) await withTimeout(ending, END_UNWANTED_MS);
    const link = this.#link;
    if (this.state !== 'closed') {
      this.#closing.abort();
      this.#change('closed', closedByOwner());
      this.#routes.failAll(closedByOwner());
      this.#bodies.failAll(closedByOwner());
      this.tcp.failAll(closedByOwner());
    }
    await link?.close();
    this.#activity.end();
  }

  /** Returns the open connection. Waits during a recovery; rejects when the client has failed or is closed. */
  async #usableLink(signal?: AbortSignal): Promise<Link> {
    for (;;) {
      if (this.#status.isOver) throw this.#status.reason;
      if (this.state === 'connected' && this.#link !== null) return this.#link;
      await this.#activity.during(this.#status.nextChange(signal));
    }
  }

  async #openLink(resumeSessionId: string | null, signal: AbortSignal): Promise<Link> {
    let opened: Link | null = null;
    const events: LinkEvents = {
      notification: (method, params) => this.#notified(method, params),
      request: (method, params, ending) =>
        method === 'network/policyRequest' ? this.#policyRequests.handle(params, ending) : null,
      ended: (end) => {
        if (opened !== null && this.#link === opened) this.#lost(opened, end);
      },
    };
    opened = await Link.open(this.#options, resumeSessionId, events, signal);
    return opened;
  }

  /** Makes a link the current one. The link may already have ended. */
  #install(link: Link): void {
    this.#link = link;
    link.unref();
    this.#linkSince = performance.now();
    this.#answeredBefore = link.answered;
    this.#environmentInfo = link.environmentInfo;
    this.#capabilities = capabilitiesOf(link.environmentInfo);
    this.#droppedProcesses = link.droppedProcesses;
    this.#change('connected', null);
    if (link.end !== null) this.#lost(link, link.end);
  }

  #notified(method: string, params: unknown): boolean {
    if (method === 'network/policyDecision') this.#routes.receiveDecision(params);
    const routed = this.#route(method, params);
    if (routed === 'unknown')
      this.#notifications.emit(method, () => withBase64('notifications', method, params));
    return routed !== 'unreadable';
  }

  #route(method: string, params: unknown): 'routed' | 'unreadable' | 'unknown' {
    if (method === 'http/request/bodyDelta') return this.#bodies.receive(params);
    if (method.startsWith('tcp/')) return this.tcp.receive(method, params);
    return this.#routes.receive(method, params);
  }

  /** Starts the recovery. A connection that worked is replaced without delay. */
  #lost(link: Link, end: LinkEnd): void {
    this.#link = null;
    if (this.state !== 'connected') return;
    const livedMs = performance.now() - this.#linkSince;
    const good = livedMs >= GOOD_CONNECTION_MS || link.answered > this.#answeredBefore;
    if (good) this.#backoff.reset();
    if (livedMs >= Math.min(this.#options.recoveryWindowMs, RECOVERY_WINDOW_MS)) this.#protocolErrors = 0;
    this.#protocolErrors = end.protocolError ? this.#protocolErrors + 1 : 0;
    this.#bodies.failAll(lostConnection(end));
    this.tcp.failAll(lostConnection(end));
    this.#change('recovering', lostConnection(end));
    void this.#recover(end, good ? 0 : this.#backoff.next());
  }

  async #recover(end: LinkEnd, pauseMs: number): Promise<void> {
    const { recoveryWindowMs, resumable } = this.#options;
    const limit = new CallLimit(
      'the recovery',
      {
        signal: this.#closing.signal,
        timeoutMs: recoveryWindowMs,
      },
      { kind: 'timeout', unref: true },
    );
    try {
      if (!resumable) throw lostConnection(end);
      if (this.#protocolErrors >= MAX_PROTOCOL_ERRORS) throw lostConnection(end);
      const link = await attemptUntil(
        (signal) => this.#resume(signal),
        this.#backoff,
        pauseMs,
        limit.signal!,
      );
      if (this.state === 'recovering') this.#install(link);
      else await link.close();
    } catch (error) {
      if (this.state !== 'recovering') return;
      const failure = notRecovered(end, error);
      this.#change('failed', failure);
      this.#routes.failAll(failure);
      this.#activity.end();
    } finally {
      limit.end();
    }
  }

  /** One recovery attempt: resumes the session on a new link and catches up with every process. */
  async #resume(signal: AbortSignal): Promise<Link> {
    const link = await this.#openLink(this.#sessionId, signal);
    try {
      await this.#routes.catchUp(link, signal);
      if (link.end !== null) throw new LinkEndedError(link.end, true);
      return link;
    } catch (error) {
      link.drop('the recovery was not completed');
      throw error instanceof LinkEndedError ? lostConnection(error.end) : error;
    }
  }

  #change(state: ClientState, failure: ClientError | null): void {
    if (state === 'closed' || state === 'failed') this.#notifications.end();
    this.#status.change(state, failure);
  }
}
