import type { AuditLog } from '../../audit/audit-log.ts';
import type { RejectedConnections } from '../../audit/rejected-connections.ts';
import { StartError } from '../../listener/start-error.ts';
import { NetworkError } from '../../network/errors.ts';
import type { Logger } from '../../observability/log.ts';
import type { TraceContext } from '../../observability/trace-context.ts';
import type { RequestSpan, RequestTracer } from '../../observability/tracing.ts';
import { ProcessError } from '../../process/errors.ts';
import type { ProcessListener } from '../../process/managed-process.ts';
import type { SpawnSpec } from '../../process/spawn/spawner.ts';
import { type RpcError, RpcErrorCode } from '../../protocol/errors.ts';
import type { FinishedRecording } from '../../recording/recording.ts';
import type { Handlers } from '../../rpc/router.ts';
import type { CloseReason } from '../../transport/transport.ts';
import type { Principal } from '../auth/principal.ts';
import type { ExecServerConfig } from '../config/config.ts';
import type { ConnectionAuditTrail, NetworkFailure, ProcessIds, StartPolicy } from './audit-trail.ts';
import type { auditedHandlers } from './audited-handlers.ts';
import type { MeasuredRequest, ServerMetrics, ServerState } from './server-metrics.ts';

/** The audit log and the code that writes to it, which is loaded only when it is configured. */
interface Audit {
  readonly log: AuditLog;
  readonly rejected: RejectedConnections;
  readonly AuditTrail: typeof ConnectionAuditTrail;
  readonly auditedHandlers: typeof auditedHandlers;
}

/** The audit log, metrics and traces of a server. Each is null unless it is configured. */
export class ServerRecords {
  /** For a server without audit log, metrics and traces. */
  static readonly none = new ServerRecords(null, null, null);
  /** Null when metrics are not served. */
  readonly metrics: ServerMetrics | null;
  readonly #audit: Audit | null;
  readonly #tracer: RequestTracer | null;
  #connections = 0;

  private constructor(audit: Audit | null, metrics: ServerMetrics | null, tracer: RequestTracer | null) {
    this.#audit = audit;
    this.metrics = metrics;
    this.#tracer = tracer;
  }

  /** Opens the configured records. Throws StartError when the audit log cannot be written. */
  static async open(
    config: ExecServerConfig,
    log: Logger,
    state: () => Omit<ServerState, 'audit'>,
  ): Promise<ServerRecords> {
    const hasMetrics = config.metrics || config.metricsListen !== '';
    if (config.auditLog === '' && !hasMetrics && !config.otel) return ServerRecords.none;
    const audit = config.auditLog === '' ? null : await openAudit(config, log);
    const tracer = config.otel ? await loadTracer() : null;
    if (!hasMetrics) return new ServerRecords(audit, null, tracer);
    const { ServerMetrics } = await import('./server-metrics.ts');
    const metrics = new ServerMetrics(() => ({ ...state(), audit: audit?.log.counts ?? null }));
    return new ServerRecords(audit, metrics, tracer);
  }

  /** Creates the records of a connection. */
  connection(principal: Principal): ConnectionRecords {
    this.metrics?.connected(principal.kind === 'harness' ? 'relay' : 'websocket');
    const audit = this.#audit;
    if (audit === null) return new ConnectionRecords(null, this.metrics, this.#tracer, null);
    const auditTrail = new audit.AuditTrail(audit.log, ++this.#connections, principal);
    return new ConnectionRecords(auditTrail, this.metrics, this.#tracer, audit.auditedHandlers);
  }

  /** A connection was rejected. */
  connectionRejected(status: number, reason: string, address: string | null, tokenId: string | null): void {
    this.metrics?.refused(`http ${status}`);
    this.#audit?.rejected.record(status, reason, address, tokenId);
  }

  /** Continues in a new audit log file after the old one was moved away. Resolves to false without an audit log. */
  async reopen(): Promise<boolean> {
    await this.#audit?.log.reopen();
    return this.#audit !== null;
  }

  async close(): Promise<void> {
    this.#audit?.rejected.flushUnrecorded();
    await this.#audit?.log.close();
  }
}

/** The records of one connection. Methods do nothing where the records are not configured. */
export class ConnectionRecords {
  readonly #auditTrail: ConnectionAuditTrail | null;
  readonly #metrics: ServerMetrics | null;
  readonly #tracer: RequestTracer | null;
  readonly #audited: typeof auditedHandlers | null;

  constructor(
    auditTrail: ConnectionAuditTrail | null,
    metrics: ServerMetrics | null,
    tracer: RequestTracer | null,
    audited: typeof auditedHandlers | null,
  ) {
    this.#auditTrail = auditTrail;
    this.#metrics = metrics;
    this.#tracer = tracer;
    this.#audited = audited;
  }

  /** Throws RpcError while new work must not start, because it could not be recorded. */
  requireWritable(): void {
    this.#auditTrail?.requireWritable();
  }

  attached(sessionId: string, clientName: string, resumed: boolean): void {
    this.#auditTrail?.attached(sessionId, clientName, resumed);
  }

  disconnected(reason: CloseReason): void {
    this.#auditTrail?.disconnected(reason);
  }

  /** Wraps the handlers so that file changes are recorded. */
  recorded(handlers: Handlers): Handlers {
    return this.#auditTrail === null || this.#audited === null
      ? handlers
      : this.#audited(handlers, this.#auditTrail);
  }

  /** Starts measuring a request, if metrics are enabled. */
  measure(method: string): MeasuredRequest | undefined {
    return this.#metrics?.requested(method);
  }

  /** Starts the span of a request, if tracing is enabled. */
  traced(method: string, remote: TraceContext | null): RequestSpan | undefined {
    return this.#tracer?.request(method, remote);
  }

  /** Starts the span of an outgoing HTTP request within a request. */
  tracedHttp(method: string, parent: TraceContext | null): RequestSpan | undefined {
    return this.#tracer?.httpRequest(method, parent);
  }

  /** A request was answered with an error. */
  refused(method: string, error: unknown, refusal: RpcError): void {
    const cause = causeOfRefusal(error, refusal);
    if (cause === null) return;
    this.#metrics?.refused(cause);
    // A request that reached the network rules has its own record.
    if (!(error instanceof NetworkError && (method === 'http/request' || method === 'tcp/connect')))
      this.#auditTrail?.refused(method, refusal);
  }

  /** Sends an HTTP request and records its outcome. Rejects with RpcError while nothing can be recorded. */
  async httpRequest<T extends { readonly status: number }>(
    request: { readonly method: string; readonly url: string },
    send: () => Promise<T>,
  ): Promise<T> {
    this.requireWritable();
    try {
      const response = await send();
      this.#auditTrail?.httpRequest(request, { outcome: 'answered', status: response.status });
      return response;
    } catch (error) {
      this.#auditTrail?.httpRequest(request, outcomeOf(error));
      throw error;
    }
  }

  /** Opens a TCP stream and records its outcome. Rejects with RpcError while nothing can be recorded. */
  async tcpConnect<T>(
    target: { readonly host: string; readonly port: number },
    connect: () => Promise<T>,
  ): Promise<T> {
    this.requireWritable();
    try {
      const opened = await connect();
      this.#auditTrail?.tcpConnect(target, { outcome: 'connected' });
      return opened;
    } catch (error) {
      this.#auditTrail?.tcpConnect(target, outcomeOf(error));
      throw error;
    }
  }

  /** Records a start. The start must wait for the promise, if there is one. Throws or rejects with RpcError when it cannot be recorded. */
  starting(ids: ProcessIds, spec: SpawnSpec, policy: StartPolicy): Promise<void> | null {
    this.requireWritable();
    return this.#auditTrail?.starting(ids, spec, policy) ?? null;
  }

  started(): void {
    this.#metrics?.started();
  }

  startFailed(processId: string, error: Error): void {
    this.#auditTrail?.startFailed(processId, error);
  }

  /** Records the digest of a recording that has ended. */
  recordingEnded(ids: ProcessIds, finished: FinishedRecording): void {
    this.#auditTrail?.recordingEnded(ids, finished);
  }

  /** Records that this connection attached to a process, or detached from it. */
  attachment(
    event: 'attach' | 'detach',
    ref: string,
    details: Readonly<Record<string, string | null>>,
  ): void {
    this.#auditTrail?.attachment(event, ref, details);
  }

  /** Records that a process outlives its session from now on. */
  lifetime(ref: string, details: { readonly lifetime: 'detached'; readonly retainMs: number }): void {
    this.#auditTrail?.lifetime(ref, details);
  }

  /** Returns a listener that also feeds the audit log and the metrics. */
  watch(processId: string, listener: ProcessListener): ProcessListener {
    const audited = this.#auditTrail?.watch(processId, listener) ?? listener;
    return this.#metrics?.watch(audited) ?? audited;
  }
}

/** Only refusals by the server's rules are recorded with their text: it contains nothing of the request but its host. */
function outcomeOf(error: unknown): NetworkFailure {
  return error instanceof NetworkError && (error.kind === 'refused' || error.kind === 'limit')
    ? { outcome: 'refused', reason: error.message }
    : { outcome: 'failed' };
}

/** Whether an error is a refusal because of missing rights or of a limit. Null for other errors. */
function causeOfRefusal(error: unknown, { code }: RpcError): 'forbidden' | 'limit' | null {
  if (code === RpcErrorCode.forbidden) return 'forbidden';
  if (error instanceof NetworkError && error.kind === 'refused') return 'forbidden';
  const tooMany = error instanceof ProcessError && error.code === 'tooManyProcesses';
  return tooMany || code === RpcErrorCode.limitExceeded ? 'limit' : null;
}

async function loadTracer(): Promise<RequestTracer> {
  const { RequestTracer } = await import('../../observability/tracing.ts');
  return new RequestTracer();
}

async function openAudit(config: ExecServerConfig, log: Logger): Promise<Audit> {
  const [{ AuditLog }, { RejectedConnections }, { ConnectionAuditTrail }, { auditedHandlers }] =
    await Promise.all([
      import('../../audit/audit-log.ts'),
      import('../../audit/rejected-connections.ts'),
      import('./audit-trail.ts'),
      import('./audited-handlers.ts'),
    ]);
  const { auditLog: path, auditFsync: fsync, auditOnError: onError } = config;
  try {
    const opened = await AuditLog.open({ path, fsync, onError, log });
    return {
      log: opened,
      rejected: new RejectedConnections(opened),
      AuditTrail: ConnectionAuditTrail,
      auditedHandlers,
    };
  } catch (error) {
    throw new StartError(
      `cannot keep the audit log ${path}: ${(error as Error).message} (--audit-log names another)`,
      { cause: error },
    );
  }
}
