import { Metrics } from '../../../observability/metrics.ts';
import { addProcessMetrics } from '../../../observability/process-metrics.ts';

/** Current values, read at each scrape. */
interface RelayState {
  readonly executors: number;
  readonly harnesses: number;
  readonly streams: number;
  readonly queuedBytes: number;
  readonly leases: number;
  readonly storeAvailable: boolean;
}

/** Metrics of a relay. Labels have fixed values, so there are no series per environment. */
export class RelayMetrics {
  readonly contentType = Metrics.contentType;
  readonly #metrics = new Metrics();
  readonly requests = this.#counter('requests_total', 'Requests to the registry, by call and status.');
  readonly sockets = this.#counter('sockets_total', 'Sockets accepted, by role.');
  readonly refusals = this.#counter('refusals_total', 'Requests and sockets refused, by status.');
  readonly frames = this.#counter('frames_total', 'Frames forwarded, by sender.');
  readonly bytes = this.#counter('bytes_total', 'Bytes of frames forwarded, by sender.');
  readonly dropped = this.#counter('frames_dropped_total', 'Frames dropped, by sender and cause.');
  readonly slowDisconnected = this.#counter(
    'sockets_cut_off_total',
    'Sockets disconnected because they did not read.',
  );

  constructor(state: () => RelayState) {
    const one = (value: number) => [{ value }];
    this.#gauge('sockets_active', 'Open sockets, by role.', () => [
      { labels: { role: 'executor' }, value: state().executors },
      { labels: { role: 'harness' }, value: state().harnesses },
    ]);
    this.#gauge('streams_active', 'Open streams between harnesses and executors.', () =>
      one(state().streams),
    );
    this.#gauge('waiting_bytes', 'Bytes queued for sockets.', () => one(state().queuedBytes));
    this.#gauge('leases', 'Executors connected to this node.', () => one(state().leases));
    this.#gauge('store_available', '1 if the store is reachable.', () => one(state().storeAvailable ? 1 : 0));
    addProcessMetrics(this.#metrics, 'relay');
  }

  /** Returns all metrics in the Prometheus text format. */
  text(): string {
    return this.#metrics.text();
  }

  #counter(name: string, help: string) {
    return this.#metrics.counter(`exec_server_relay_${name}`, help);
  }

  #gauge(name: string, help: string, read: Parameters<Metrics['gauge']>[2]): void {
    this.#metrics.gauge(`exec_server_relay_${name}`, help, read);
  }
}
