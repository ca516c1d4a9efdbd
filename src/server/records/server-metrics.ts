import { type Counter, type Histogram, Metrics } from '../../observability/metrics.ts';
import { addProcessMetrics } from '../../observability/process-metrics.ts';
import type { ProcessListener } from '../../process/managed-process.ts';

/** The state of the server at the time of a scrape. */
export interface ServerState {
  readonly connections: number;
  readonly draining: boolean;
  readonly attachedSessions: number;
  readonly detachedSessions: number;
  /** Closed processes that detached sessions keep beyond their retention time. */
  readonly detachedProcesses: { readonly processes: number; readonly bytes: number };
  /** Connections that are attached to processes, counted for each process. */
  readonly attachments: number;
  /** Requests that are queued, and those that run. */
  readonly queuedRequests: number;
  readonly runningRequests: number;
  /** Bytes that wait for clients to read them. */
  readonly outboundBytes: number;
  /** Null without an audit log. */
  readonly audit: { readonly written: number; readonly pending: number; readonly lost: number } | null;
}

/** The metrics of a server. */
export class ServerMetrics {
  readonly contentType = Metrics.contentType;
  readonly #metrics = new Metrics();
  readonly #connections: Counter;
  readonly #requests: Counter;
  readonly #requestSeconds: Histogram;
  readonly #queueSeconds: Histogram;
  readonly #totalSeconds: Histogram;
  readonly #started: Counter;
  readonly #finished: Counter;
  readonly #processSeconds: Histogram;
  readonly #outputBytes: Counter;
  readonly #refusals: Counter;
  #running = 0;
  #scraped: string | null = null;

  constructor(state: () => ServerState) {
    const metrics = this.#metrics;
    this.#connections = metrics.counter('exec_server_connections_total', 'Connections accepted.');
    this.#requests = metrics.counter('exec_server_requests_total', 'Requests answered.');
    this.#requestSeconds = metrics.histogram(
      'exec_server_request_duration_seconds',
      'Time from the start of the work on a request to its response.',
      REQUEST_SECONDS,
    );
    this.#queueSeconds = metrics.histogram(
      'exec_server_request_queue_duration_seconds',
      'Time from the arrival of a request to the start of the work on it.',
      REQUEST_SECONDS,
    );
    this.#totalSeconds = metrics.histogram(
      'exec_server_request_total_duration_seconds',
      'Time from the arrival of a request to its response.',
      REQUEST_SECONDS,
    );
    this.#started = metrics.counter('exec_server_processes_started_total', 'Programs started.');
    this.#finished = metrics.counter('exec_server_processes_finished_total', 'Programs that have ended.');
    this.#processSeconds = metrics.histogram(
      'exec_server_process_duration_seconds',
      'Time from the start of a program to the end of its output.',
      PROCESS_SECONDS,
    );
    this.#outputBytes = metrics.counter(
      'exec_server_output_bytes_total',
      'Bytes that programs have written.',
    );
    this.#refusals = metrics.counter('exec_server_refusals_total', 'Connections and requests refused.');
    this.#defineGauges(state);
  }

  /** All metrics in the Prometheus text format. */
  text(): string {
    return this.#metrics.text();
  }

  /**
   * The metrics for a scraper. Writing them takes milliseconds, and a client may pipeline many requests. All requests of one turn of the
   * event loop get the same text.
   */
  scrape(): string {
    if (this.#scraped === null) {
      this.#scraped = this.text();
      setImmediate(() => {
        this.#scraped = null;
      });
    }
    return this.#scraped;
  }

  connected(transport: 'websocket' | 'relay'): void {
    this.#connections.add({ transport });
  }

  /** Starts measuring a request that has just arrived. */
  requested(method: string): MeasuredRequest {
    const arrivedAt = performance.now();
    let begunAt = arrivedAt;
    return {
      began: () => {
        begunAt = performance.now();
      },
      ended: (result) => {
        const labels = { method, result };
        const endedAt = performance.now();
        this.#requests.add(labels);
        this.#requestSeconds.observe(labels, (endedAt - begunAt) / 1_000);
        this.#queueSeconds.observe({ method }, (begunAt - arrivedAt) / 1_000);
        this.#totalSeconds.observe(labels, (endedAt - arrivedAt) / 1_000);
      },
    };
  }

  /** Counts a refusal. `cause` is a fixed text of the server: an HTTP status, or a kind of error. */
  refused(cause: string): void {
    this.#refusals.add({ cause });
  }

  /** Returns a listener that counts the output and the end of a program and forwards all events. */
  watch(listener: ProcessListener): ProcessListener {
    const startedAt = performance.now();
    let succeeded = false;
    return {
      output: (seq, stream, bytes) => {
        this.#outputBytes.add({ stream }, bytes.length);
        listener.output(seq, stream, bytes);
      },
      exited: (seq, exitCode, reason, denied) => {
        succeeded = exitCode === 0;
        listener.exited(seq, exitCode, reason, denied);
      },
      closed: (seq, reason) => {
        this.#running--;
        this.#finished.add({ result: reason ?? (succeeded ? 'success' : 'error') });
        this.#processSeconds.observe({}, (performance.now() - startedAt) / 1_000);
        listener.closed(seq, reason);
      },
    };
  }

  started(): void {
    this.#running++;
    this.#started.add();
  }

  #defineGauges(state: () => ServerState): void {
    const metrics = this.#metrics;
    const one = (value: number) => [{ value }];
    metrics.gauge('exec_server_connections_active', 'Open connections.', () => one(state().connections));
    metrics.gauge('exec_server_draining', '1 while the server drains: it accepts no new work.', () =>
      one(state().draining ? 1 : 0),
    );
    metrics.gauge('exec_server_sessions', 'Sessions, with and without a connection.', () => [
      { labels: { state: 'attached' }, value: state().attachedSessions },
      { labels: { state: 'detached' }, value: state().detachedSessions },
    ]);
    metrics.gauge(
      'exec_server_detached_processes',
      'Closed processes that sessions keep beyond their retention time.',
      () => one(state().detachedProcesses.processes),
    );
    metrics.gauge('exec_server_detached_output_bytes', 'Memory of these processes.', () =>
      one(state().detachedProcesses.bytes),
    );
    metrics.gauge('exec_server_attachments', 'Connections attached to processes of other sessions.', () =>
      one(state().attachments),
    );
    metrics.gauge('exec_server_processes_active', 'Programs whose output has not ended.', () =>
      one(this.#running),
    );
    metrics.gauge('exec_server_requests_active', 'Requests that are queued or running.', () => [
      { labels: { state: 'queued' }, value: state().queuedRequests },
      { labels: { state: 'running' }, value: state().runningRequests },
    ]);
    metrics.gauge('exec_server_outbound_queue_bytes', 'Bytes that wait for clients to read them.', () =>
      one(state().outboundBytes),
    );
    metrics.observedCounter('exec_server_audit_records_total', 'Records of the audit log.', () => {
      const { audit } = state();
      if (audit === null) return [];
      return [
        { labels: { state: 'written' }, value: audit.written },
        { labels: { state: 'lost' }, value: audit.lost },
      ];
    });
    metrics.gauge('exec_server_audit_queue_records', 'Records that wait to be written.', () => {
      const { audit } = state();
      return audit === null ? [] : one(audit.pending);
    });
    addProcessMetrics(metrics, 'server');
  }
}

/** A request that is being measured. */
export interface MeasuredRequest {
  /** The request leaves the queue. */
  began(): void;
  ended(result: RequestResult): void;
}

/** How a request ended. */
type RequestResult = 'success' | 'error';

const REQUEST_SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 10, 60];
const PROCESS_SECONDS = [0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 300, 1_800, 3_600];
