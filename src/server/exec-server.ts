import { channel } from 'node:diagnostics_channel';
import { descriptorLimit } from '../listener/connection-slots.ts';
import { isLoopback, type SocketAddress, type UnixAddress } from '../listener/listen-url.ts';
import type { MetricsListener } from '../listener/metrics-listener.ts';
import type { Revocations } from '../listener/revocations.ts';
import { StartError } from '../listener/start-error.ts';
import { createLogger, type Logger } from '../observability/log.ts';
import { logStream } from '../observability/log-stream.ts';
import { SIGTERM } from '../process/signals.ts';
import type { LazySpawner } from '../process/spawn/lazy-spawner.ts';
import { CloseCode, type CloseReason, type Transport } from '../transport/transport.ts';
import type { Gate } from './auth/gate.ts';
import { openGate, openMetricsGate, openRevocations } from './auth/open-gate.ts';
import { anonymousPrincipal, type Principal } from './auth/principal.ts';
import { ClientConnection } from './client-connection.ts';
import { DEFAULT_CONFIG, type ExecServerConfig, type ServerSettings } from './config/config.ts';
import { configOf } from './config/resolve.ts';
import { Draining, type DrainStatus } from './draining.ts';
import { IdleWatch } from './idle-watch.ts';
import { TOKEN_EXPIRY_CHECK_MS } from './limits.ts';
import { createMetricsListener } from './listen/create-metrics-listener.ts';
import type { Listener } from './listen/listener.ts';
import type { ServerConsole } from './listen/server-console.ts';
import { ServerRecords } from './records/records.ts';
import type { ServerState } from './records/server-metrics.ts';
import { type DescriptorShares, shareDescriptors } from './sessions/quotas.ts';
import { type ConnectionServices, createServices } from './shared-services.ts';
import { tlsFilesOf } from './start-checks.ts';

/** What the caller of `serve` knows about the server, and no setting says. */
export interface ServeOptions {
  /** A listening socket for the address that this process has inherited, as from systemd. Default: it binds the address. */
  readonly descriptor?: number | null;
  /** A directory that no sandbox shows, with all links resolved. Default: none. */
  readonly hiddenDirectory?: string;
}

interface ExecServerOptions extends ServeOptions {
  /** Default: a log on stderr at the configured level. */
  readonly log?: Logger;
  /** Whether the clients run in this process. The server then does not busy-poll for their requests. */
  readonly inProcess?: boolean;
  /** The values of the settings that are left out. */
  readonly defaults?: ExecServerConfig;
}

/** Owns the sessions, connections, listener and spawner of a server. */
export class ExecServer {
  /** Resolves when `close` is complete. */
  readonly closed: Promise<void>;
  readonly #config: ExecServerConfig;
  readonly #inProcess: boolean;
  readonly #log: Logger;
  readonly #connections = new Set<ClientConnection>();
  readonly #resolveClosed: () => void;
  readonly #descriptors: DescriptorShares;
  readonly #spawner: LazySpawner;
  readonly #services: ConnectionServices;
  /** Set with the first session. */
  #prepared: NodeJS.Immediate | null = null;
  #listener: Listener | null = null;
  /** Null without a listener for metrics alone. */
  #metricsListener: MetricsListener | null = null;
  #metricsUrl: string | null = null;
  /** Null when the web console is off. */
  #console: ServerConsole | null = null;
  /** Null when no revocation list is configured. */
  #revocations: Revocations | null = null;
  #records = ServerRecords.none;
  #closing: Promise<void> | null = null;
  #draining: Draining | null = null;
  #idleWatch: IdleWatch | null = null;
  #accepted = 0;

  /** Throws ConfigError for an unknown name or an invalid value. */
  constructor(
    settings: ServerSettings,
    { log, inProcess = false, defaults = DEFAULT_CONFIG, hiddenDirectory }: ExecServerOptions = {},
  ) {
    const config = configOf(settings, defaults);
    this.#config = config;
    this.#inProcess = inProcess;
    this.#log = log ?? createLogger(config.logLevel, logStream(process.stderr));
    let resolveClosed = () => {};
    this.closed = new Promise((resolve) => {
      resolveClosed = resolve;
    });
    this.#resolveClosed = resolveClosed;
    this.#descriptors = shareDescriptors(descriptorLimit(), config.maxConnections);
    const { spawner, services } = createServices(config, {
      inProcess,
      log: this.#log,
      ...(hiddenDirectory !== undefined && { hiddenDirectory }),
      descriptors: this.#descriptors.work,
      draining: () => this.#draining?.announced ?? null,
      // After the response: a client that opens a session will soon start a program.
      sessionOpened: () => {
        this.#prepared ??= setImmediate(() => void this.#prepare().catch(() => undefined));
      },
    });
    this.#spawner = spawner;
    this.#services = services;
  }

  /** Opens the configured audit log, metrics, tracing and recordings. Must precede the first client. Throws StartError when that fails. */
  async openRecords(): Promise<void> {
    this.#records = await ServerRecords.open(this.#config, this.#log, () => this.#state());
    await this.#listenForScrapers();
    const { recordDir } = this.#config;
    if (recordDir === '') return;
    await this.#services.recordings?.prepare().catch((error: Error) => {
      throw new StartError(`cannot keep recordings in ${recordDir}: ${error.message} (--record-dir)`);
    });
  }

  async #listenForScrapers(): Promise<void> {
    const isReady = () => this.#draining === null && this.#closing === null;
    const { metrics } = this.#records;
    this.#metricsListener = await createMetricsListener(this.#config, metrics, this.#log, isReady);
    if (this.#metricsListener === null) return;
    this.#metricsUrl = await this.#metricsListener.listen();
    // A program that can reach this machine through its proxy must not read the metrics.
    this.#services.proxies.serverPorts.add(Number(new URL(this.#metricsUrl).port));
  }

  /** The URL of the metrics listener; null without one. */
  get metricsUrl(): string | null {
    return this.#metricsUrl;
  }

  /** Opens the listener, on an inherited socket if there is one, and returns its URL. */
  async listen(address: SocketAddress | UnixAddress, descriptor: number | null = null): Promise<string> {
    await this.openRecords();
    const { connections, sockets } = this.#descriptors;
    const tls = tlsFilesOf(this.#config, address);
    this.#revocations = await openRevocations(this.#config);
    const gate = await openGate(this.#config, this.#revocations);
    if (this.#config.console) this.#console = await this.#openConsole(gate, tls !== null);
    // A server in memory never needs it.
    const { Listener } = await import('./listen/listener.ts');
    this.#listener = new Listener({
      ...this.#config,
      address,
      descriptor,
      tls,
      maxConnections: connections,
      maxSockets: sockets,
      log: this.#log,
      metrics: this.#config.metrics ? this.#records.metrics : null,
      metricsGate: await openMetricsGate(this.#config),
      rejected: (...rejection) => this.#records.connectionRejected(...rejection),
      gate,
      webConsole: this.#console,
      accepted: (transport, principal) => void this.accept(transport, principal),
    });
    const url = await this.#listener.listen();
    this.#endWhenIdle();
    // A program that can reach this machine through its proxy must not control the server that sandboxes it.
    if (address.kind === 'websocket') this.#services.proxies.serverPorts.add(Number(new URL(url).port));
    if (address.kind === 'websocket' && tls === null && !isLoopback(address.host)) {
      this.#log.warn('connections are not encrypted: listen on wss:// with --tls-cert and --tls-key', {
        listen: url,
      });
    }
    return url;
  }

  async #openConsole(gate: Gate | null, tls: boolean): Promise<ServerConsole> {
    const { createServerConsole } = await import('./listen/server-console.ts');
    return createServerConsole({
      config: this.#config,
      tls,
      log: this.#log,
      gate,
      isRevoked: (principal) => this.#isRevoked(principal),
      state: () => this.#state(),
      accept: (transport, principal) => this.accept(transport, principal),
      rejected: (...rejection) => this.#records.connectionRejected(...rejection),
    });
  }

  /** See {@link RunningServer.consoleLink}. */
  consoleLink(url: string): string | null {
    return this.#console?.link(url) ?? null;
  }

  /** Whether there is no connection, no session and no process whose output is kept. */
  get isIdle(): boolean {
    const { counts, directory } = this.#services.sessions;
    const hasProcesses = directory.list(null)[Symbol.iterator]().next().done !== true;
    return this.#connections.size + counts.attached + counts.detached === 0 && !hasProcesses;
  }

  #endWhenIdle(): void {
    const { idleTimeoutMs } = this.#config;
    if (idleTimeoutMs === Number.POSITIVE_INFINITY) return;
    const activity = () => ({ accepted: this.#accepted, isIdle: this.isIdle });
    this.#idleWatch = new IdleWatch(idleTimeoutMs, activity, () => void this.close('the server is idle'));
  }

  /**
   * Reloads certificates, revoked tokens and the audit log file. Resolves to false when none of them is configured. A failure is
   * logged, and the server continues with the old ones.
   */
  async reload(): Promise<boolean> {
    const read = await Promise.all([
      this.#reloadCertificates(),
      this.#reloadRevocations(),
      this.#reopenRecords(),
    ]);
    return read.includes(true);
  }

  async #reloadCertificates(): Promise<boolean> {
    if (this.#config.tlsCert === '') return false;
    try {
      await this.#listener?.reload();
      this.#log.info('certificates reloaded');
    } catch (error) {
      this.#log.error('cannot reload the certificates; the old ones stay in use', {
        reason: (error as Error).message,
      });
    }
    return true;
  }

  async #reloadRevocations(): Promise<boolean> {
    if (this.#revocations === null) return false;
    try {
      await this.#revocations.reload();
      this.#log.info('revoked tokens reloaded');
    } catch (error) {
      this.#log.error('cannot reload the revoked tokens; the old list stays in use', {
        reason: (error as Error).message,
      });
    }
    for (const connection of this.#connections) this.#closeIfRevoked(connection);
    this.#services.sessions.shortenTtl((session) => this.#isRevoked(session));
    return true;
  }

  #isRevoked({ revocableId }: Pick<Principal, 'revocableId'>): boolean {
    return revocableId !== null && this.#revocations?.has(revocableId) === true;
  }

  #closeIfRevoked(connection: ClientConnection): void {
    if (!this.#isRevoked(connection.principal)) return;
    connection.close({ code: CloseCode.policyViolation, reason: 'the token has been revoked' });
  }

  async #reopenRecords(): Promise<boolean> {
    try {
      return await this.#records.reopen();
    } catch (error) {
      this.#log.error('cannot reopen the audit log; the old file stays in use', {
        reason: (error as Error).message,
      });
      return true;
    }
  }

  /** Serves one client. Resolves when the connection is closed. */
  async accept(transport: Transport, principal = anonymousPrincipal(null)): Promise<CloseReason> {
    const records = this.#records.connection(principal);
    const connection = new ClientConnection(transport, this.#services, principal, records);
    this.#connections.add(connection);
    this.#accepted++;
    // A caller may bring its own transport after shutdown has begun.
    if (this.#closing !== null) connection.close(goingAway(SHUTTING_DOWN));
    // The list may have been reloaded since the token was verified.
    this.#closeIfRevoked(connection);
    const expiry = this.#config.closeOnTokenExpiry ? closeOnExpiry(connection) : undefined;
    const reason = await connection.closed;
    clearInterval(expiry);
    this.#connections.delete(connection);
    records.disconnected(reason);
    this.#log.info('connection closed', { code: reason.code, reason: reason.reason });
    return reason;
  }

  /** Whether programs can run on a terminal; when not, why. */
  get pty(): LazySpawner['pty'] {
    return this.#spawner.pty;
  }

  /** Ends every session and its processes. Clients stay connected and receive the last events. No session can be opened afterwards. */
  endSessions(): Promise<void> {
    // An in-memory server kills its programs immediately, because their owner no longer needs them.
    return this.#services.sessions.close(
      this.#inProcess ? null : SIGTERM,
      this.#config.shutdownGracePeriodMs,
    );
  }

  /**
   * Refuses new work, notifies the clients that asked for it, waits until the last program has ended or the time is over, and closes.
   * Another call with a time changes how long the server waits.
   */
  drain(timeoutMs?: number): Promise<void> {
    if (this.#closing !== null) return this.#closing;
    if (this.#draining === null) {
      this.#listener?.setNotReady();
      const drained = { sessions: this.#services.sessions, connections: this.#connections, log: this.#log };
      this.#draining = new Draining(drained, timeoutMs ?? this.#config.drainTimeoutMs);
    } else if (timeoutMs !== undefined) {
      this.#draining.limit(timeoutMs);
    }
    return this.#draining.done.then(() => this.close('the server has drained'));
  }

  /** What the server waits for while it drains; null while it does not. */
  get drainStatus(): DrainStatus | null {
    return this.#draining?.status ?? null;
  }

  close(reason = SHUTTING_DOWN): Promise<void> {
    this.#closing ??= this.#shutDown(reason);
    return this.#closing;
  }

  #state(): Omit<ServerState, 'audit'> {
    const loads = [...this.#connections].map(({ load }) => load);
    const total = (part: (load: ClientConnection['load']) => number) =>
      loads.reduce((sum, load) => sum + part(load), 0);
    const { attached, detached } = this.#services.sessions.counts;
    return {
      connections: loads.length,
      draining: this.#draining !== null,
      attachedSessions: attached,
      detachedSessions: detached,
      detachedProcesses: this.#services.sessions.detachedProcesses,
      attachments: this.#services.sessions.directory.attachments,
      queuedRequests: total(({ queued }) => queued),
      runningRequests: total(({ active }) => active),
      outboundBytes: total(({ outboundBytes }) => outboundBytes),
    };
  }

  async #prepare(): Promise<void> {
    FIRST_SESSION.publish(null);
    const { pty } = await this.#spawner.prepare();
    if (pty.available) await this.#services.fastPaths.prepare();
    else this.#log.warn('terminals are not available', { reason: pty.reason });
  }

  async #shutDown(reason: string): Promise<void> {
    this.#idleWatch?.close();
    this.#draining?.stop();
    this.#listener?.refuseConnections();
    await this.endSessions();
    await Promise.all([...this.#connections].map((connection) => endConnection(connection, reason)));
    this.#console?.close();
    await this.#services.sandboxEnforcer.close();
    await this.#spawner.close();
    await this.#listener?.close();
    await this.#metricsListener?.close();
    await this.#services.recordings?.close();
    await this.#records.close();
    this.#resolveClosed();
  }
}

/** Lets the program store its compiled code after the start. */
const FIRST_SESSION = channel('exec-server:first-session');

const SHUTTING_DOWN = 'the server is shutting down';

function goingAway(reason: string): CloseReason {
  return { code: CloseCode.goingAway, reason };
}

async function endConnection(connection: ClientConnection, reason: string): Promise<void> {
  connection.close(goingAway(reason));
  await connection.closed;
}

function closeOnExpiry(connection: ClientConnection): NodeJS.Timeout | undefined {
  const { expiresAtMs } = connection.principal;
  if (expiresAtMs === null) return undefined;
  const reason = { code: CloseCode.policyViolation, reason: 'the token has expired (closeOnTokenExpiry)' };
  // Not one long timer: a token may be valid longer than the longest timer, and the clock may be set.
  return setInterval(() => {
    if (Date.now() >= expiresAtMs) connection.close(reason);
  }, TOKEN_EXPIRY_CHECK_MS);
}
