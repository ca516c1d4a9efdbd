import { onAbort } from '../base/abort.ts';
import type {
  CallParamsOf,
  Method,
  Notification,
  NotificationParamsOf,
  ResultOf,
} from '../protocol/registry.ts';
import type { Transport } from '../transport/transport.ts';
import type { CallOptions, EnvironmentInfo, ExecBackend, ExecutorHttp } from './backend.ts';
import { CallLimit } from './call-limit.ts';
import { asClientError, lostCall, protocolFailure } from './connection/call-errors.ts';
import { CallRetries, rulesOf } from './connection/call-rules.ts';
import { Link, type LinkEnd, LinkEndedError, type LinkEvents, type LinkSettings } from './connection/link.ts';
import { type PolicyHandler, PolicyRequests } from './connection/policy-requests.ts';
import { type Capabilities, capabilitiesOf } from './connection/server-messages.ts';
import type { TraceSource } from './connection/trace.ts';
import { ClientError } from './errors.ts';
import { HttpBodies } from './http/http-bodies.ts';
import { RemoteHttp } from './http/remote-http.ts';
import {
  CONNECT_TIMEOUT_MS,
  GOOD_CONNECTION_MS,
  INITIALIZE_TIMEOUT_MS,
  MAX_MESSAGE_BYTES,
  MAX_PROTOCOL_ERRORS,
  RECOVERY_WINDOW_MS,
} from './limits.ts';
import { Listeners } from './listeners.ts';
import { ProcessRoutes } from './process/process-routes.ts';
import { RemoteBackend } from './process/remote-backend.ts';
import { attemptUntil, reconnectBackoff } from './reconnect.ts';

/** `recovering` comes back to `connected` or ends in `failed`; after that there is only `closed`, and nothing after it. */
export type ClientState = 'connected' | 'recovering' | 'failed' | 'closed';

/** What every client can be told. */
export interface SessionOptions {
  /** Who is calling, for the server's logs. */
  readonly clientName?: string;
  readonly connectTimeoutMs?: number;
  readonly initializeTimeoutMs?: number;
  /** How long a lost connection is looked for. 0 gives up at once. */
  readonly recoveryWindowMs?: number;
  /** A session that another client has left, instead of a new one. */
  readonly resumeSessionId?: string;
  /** How long the session and its processes outlive the connection; the server caps it. 0 ends them with it. */
  readonly detachedSessionTtlMs?: number;
  /**
   * Decides about hosts that processes of {@link ClientCore.backend} want to reach and that no pattern of their `networkProxy` allows,
   * where it has `policyDecisionTimeoutMs`. Without it they are denied.
   */
  readonly onNetworkPolicyRequest?: PolicyHandler;
  /** Says which trace a call is part of, for servers that trace: `activeTrace` where OpenTelemetry does. */
  readonly trace?: TraceSource;
  /** Largest message that is read. */
  readonly maxMessageBytes?: number;
  /** Aborts connecting; it has no effect afterwards. */
  readonly signal?: AbortSignal;
}

/** How to get a transport. */
export interface TransportSource {
  /** Opens one; it should stop when the signal aborts. */
  open(signal: AbortSignal): Promise<Transport>;
  /** Whether another transport can be opened to the same session after one is lost. */
  readonly resumable: boolean;
}

/** A session with a server that outlives its connections. Knows nothing of how they are opened. */
export class ClientCore {
  /** Starts processes on the server. */
  readonly backend: ExecBackend;
  /** Asks web servers from where the server is. */
  readonly http: ExecutorHttp;
  readonly #options: LinkSettings & { readonly resumable: boolean; readonly recoveryWindowMs: number };
  readonly #routes = new ProcessRoutes();
  readonly #bodies = new HttpBodies();
  readonly #policyRequests: PolicyRequests;
  readonly #states = new Listeners<[ClientState, ClientError | null]>();
  readonly #notifications = new Map<string, Listeners<[unknown]>>();
  readonly #linkWaiters = new Listeners<[]>();
  readonly #backoff = reconnectBackoff();
  /** Aborted by `close`. */
  readonly #closing = new AbortController();
  #state: ClientState = 'connected';
  #failure: ClientError | null = null;
  #link: Link | null = null;
  #linkSince = 0;
  #answeredBefore = 0;
  #protocolErrors = 0;
  #sessionId = '';
  #environmentInfo: EnvironmentInfo | null = null;
  #capabilities: Capabilities = {};

  protected constructor(source: TransportSource, options: SessionOptions) {
    this.#options = {
      open: (signal) => source.open(signal),
      resumable: source.resumable,
      connectTimeoutMs: options.connectTimeoutMs ?? CONNECT_TIMEOUT_MS,
      initializeTimeoutMs: options.initializeTimeoutMs ?? INITIALIZE_TIMEOUT_MS,
      recoveryWindowMs: options.recoveryWindowMs ?? RECOVERY_WINDOW_MS,
      maxMessageBytes: options.maxMessageBytes ?? MAX_MESSAGE_BYTES,
      clientName: options.clientName ?? 'exec-server-client',
      detachedSessionTtlMs: options.detachedSessionTtlMs,
      trace: options.trace,
    };
    this.#policyRequests = new PolicyRequests(options.onNetworkPolicyRequest, (id) => this.#routes.has(id));
    const core = this;
    this.backend = new RemoteBackend({
      get capabilities() {
        return core.capabilities;
      },
      get environmentInfo() {
        return core.environmentInfo;
      },
      call: (method, params, callOptions) => core.call(method, params, callOptions),
      usableLink: (signal) => core.#usableLink(signal),
      routes: this.#routes,
    });
    this.http = new RemoteHttp(this, this.#bodies);
  }

  /** Opens the first connection. */
  protected async start({ resumeSessionId, signal }: SessionOptions): Promise<void> {
    const link = await this.#openLink(resumeSessionId ?? null, signal ?? new AbortController().signal);
    this.#sessionId = link.sessionId;
    this.#install(link);
  }

  /** Asks the server for a sign of life at an interval, and drops a connection on which none comes. */
  protected keepAlive(intervalMs: number, timeoutMs: number): void {
    const probe = async () => {
      const link = this.#link;
      const limit = new CallLimit('a sign of life', { timeoutMs });
      await link?.call('environment/status', {}, { signal: limit.signal }).catch((error: unknown) => {
        if (error instanceof ClientError && error.kind === 'timeout') link.drop('the server does not answer');
      });
      limit.end();
    };
    const timer = setInterval(() => void probe(), intervalMs);
    this.onStateChange((state) => {
      if (state === 'closed' || state === 'failed') clearInterval(timer);
    });
  }

  get state(): ClientState {
    return this.#state;
  }

  /** Why the client is not connected; null while it is. */
  get failure(): ClientError | null {
    return this.#failure;
  }

  /** Quote it as `resumeSessionId` to come back with another client. */
  get sessionId(): string {
    return this.#sessionId;
  }

  /** What the server told when it was greeted last; null when it told nothing. */
  get environmentInfo(): EnvironmentInfo | null {
    return this.#environmentInfo;
  }

  /** What the server can do. A missing flag means no. */
  get capabilities(): Capabilities {
    return this.#capabilities;
  }

  /** Called after every change of {@link state}. Returns what ends it. */
  onStateChange(listener: (state: ClientState, failure: ClientError | null) => void): () => void {
    return this.#states.add(listener);
  }

  /**
   * Called with each notification of that name, except the events of processes that {@link backend} has started: they have
   * readers of their own. The params are passed as they came. Returns what ends it.
   */
  onNotification<N extends Notification>(
    method: N,
    listener: (params: NotificationParamsOf<N>) => void,
  ): () => void {
    let listeners = this.#notifications.get(method);
    if (listeners === undefined) {
      listeners = new Listeners();
      this.#notifications.set(method, listeners);
    }
    return listeners.add(listener as (params: unknown) => void);
  }

  /**
   * Calls a method. During a recovery calls wait; those that only look are sent again when their answer got lost. The result is
   * passed as it came: the type is the server's promise.
   */
  async call<M extends Method>(
    method: M,
    params: CallParamsOf<M>,
    options: CallOptions = {},
  ): Promise<ResultOf<M>> {
    const rules = rulesOf(method, params);
    const timeoutMs = options.timeoutMs ?? rules.timeoutMs;
    const limit = new CallLimit(`\`${method}\``, { signal: options.signal, timeoutMs });
    try {
      for (const repeats = new CallRetries(); ; ) {
        if (rules.failFast && this.#state === 'recovering') throw this.#failure ?? closedByOwner();
        const link = await this.#usableLink(limit.signal);
        const sentAt = performance.now();
        try {
          const result = await link.call(method, params, { signal: limit.signal, cleanup: rules.cleanup });
          return result as ResultOf<M>;
        } catch (error) {
          if (!(error instanceof LinkEndedError)) throw asClientError(error, method);
          if (this.#state === 'closed') throw closedByOwner();
          if (!error.sent) continue;
          if (!rules.retryable) throw lostCall(method, error.end);
          if (repeats.allowAfter(error.end, sentAt)) continue;
          throw error.end.protocolError ? protocolFailure(method, error.end) : lostCall(method, error.end);
        }
      }
    } finally {
      limit.end();
    }
  }

  /** Ends the connection. Processes run on for as long as the server keeps the session. */
  async close(): Promise<void> {
    const link = this.#link;
    if (this.#state !== 'closed') {
      this.#closing.abort();
      this.#change('closed', closedByOwner());
      this.#routes.failAll(closedByOwner());
      this.#bodies.failAll(closedByOwner());
    }
    await link?.close();
  }

  /** The open connection. Waits for a recovery; rejects when there is none and will be none. */
  async #usableLink(signal?: AbortSignal): Promise<Link> {
    for (;;) {
      if (this.#state === 'closed' || this.#state === 'failed') throw this.#failure ?? closedByOwner();
      if (this.#state === 'connected' && this.#link !== null) return this.#link;
      await this.#nextChange(signal);
    }
  }

  #nextChange(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(signal.reason);
        return;
      }
      const finish = () => {
        stop();
        unsubscribe?.();
        if (signal?.aborted) reject(signal.reason);
        else resolve();
      };
      const stop = this.#linkWaiters.add(finish);
      const unsubscribe = signal && onAbort(signal, finish);
    });
  }

  async #openLink(resumeSessionId: string | null, signal: AbortSignal): Promise<Link> {
    let opened: Link | null = null;
    const events: LinkEvents = {
      notification: (method, params) => this.#notified(method, params),
      request: (method, params, ending) =>
        method === 'network/policyRequest' ? this.#policyRequests.answer(params, ending) : null,
      ended: (end) => {
        if (opened !== null && this.#link === opened) this.#lost(opened, end);
      },
    };
    opened = await Link.open(this.#options, resumeSessionId, events, signal);
    return opened;
  }

  /** The link may have ended since it was opened. */
  #install(link: Link): void {
    this.#link = link;
    this.#linkSince = performance.now();
    this.#answeredBefore = link.answered;
    this.#environmentInfo = link.environmentInfo;
    this.#capabilities = capabilitiesOf(link.environmentInfo);
    this.#change('connected', null);
    if (link.end !== null) this.#lost(link, link.end);
  }

  #notified(method: string, params: unknown): boolean {
    const routed =
      method === 'http/request/bodyDelta'
        ? this.#bodies.receive(params)
        : this.#routes.receive(method, params);
    if (routed === 'unknown') this.#notifications.get(method)?.emit(params);
    return routed !== 'unreadable';
  }

  /** A connection that was of use is replaced without delay. */
  #lost(link: Link, end: LinkEnd): void {
    this.#link = null;
    if (this.#state !== 'connected') return;
    const livedMs = performance.now() - this.#linkSince;
    const good = livedMs >= GOOD_CONNECTION_MS || link.answered > this.#answeredBefore;
    if (good) this.#backoff.reset();
    if (livedMs >= this.#options.recoveryWindowMs) this.#protocolErrors = 0;
    this.#protocolErrors = end.protocolError ? this.#protocolErrors + 1 : 0;
    this.#bodies.failAll(lostConnection(end));
    this.#change('recovering', lostConnection(end));
    void this.#recover(end, good ? 0 : this.#backoff.next());
  }

  async #recover(end: LinkEnd, pauseMs: number): Promise<void> {
    const { recoveryWindowMs, resumable } = this.#options;
    const limit = new CallLimit('the recovery', {
      signal: this.#closing.signal,
      timeoutMs: recoveryWindowMs,
    });
    try {
      if (!resumable) throw lostConnection(end);
      if (this.#protocolErrors >= MAX_PROTOCOL_ERRORS) throw lostConnection(end);
      const link = await attemptUntil(
        (signal) => this.#resume(signal),
        this.#backoff,
        pauseMs,
        limit.signal!,
      );
      if (this.#state === 'recovering') this.#install(link);
      else await link.close();
    } catch (error) {
      if (this.#state !== 'recovering') return;
      const failure = notRecovered(end, error);
      this.#change('failed', failure);
      this.#routes.failAll(failure);
    } finally {
      limit.end();
    }
  }

  /** One attempt: a link to the same session, on which every process has been caught up with. */
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
    if (this.#state === 'closed' || (this.#state === 'failed' && state !== 'closed')) return;
    const changed = state !== this.#state;
    this.#state = state;
    this.#failure = failure;
    this.#linkWaiters.emit();
    if (changed) this.#states.emit(state, failure);
  }
}

function lostConnection(end: LinkEnd): ClientError {
  return new ClientError(
    end.protocolError ? 'protocol' : 'disconnected',
    `the connection was lost: ${end.reason}`,
    {
      retryable: true,
    },
  );
}

/** The hint of what was tried last is the one that helps. */
function notRecovered(end: LinkEnd, error: unknown): ClientError {
  const kind = end.protocolError ? 'protocol' : 'disconnected';
  const lost = `the connection was lost: ${end.reason}`;
  const cause = asClientError(error, 'initialize');
  const tried = cause.message.startsWith(lost) ? '' : ` and could not be restored: ${withoutHint(cause)}`;
  const hint = cause.hint ?? 'connect again: what ran on the server ends with its session';
  return new ClientError(kind, `${lost}${tried}`, { cause, code: cause.code ?? undefined, hint });
}

function withoutHint({ message, hint }: ClientError): string {
  return hint === null ? message : message.slice(0, -`; ${hint}`.length);
}

function closedByOwner(): ClientError {
  return new ClientError('closed', 'the client is closed');
}
