import { Metrics } from '../../../observability/metrics.ts';

/** What is asked of the relay at the moment of scraping. */
export interface RelayState {
  readonly executors: number;
  readonly harnesses: number;
  readonly streams: number;
  readonly waitingBytes: number;
  readonly leases: number;
  readonly storeAvailable: boolean;
}

/** Counts what a relay does. Labels are the relay's own words: no series for each environment. */
export class RelayMetrics {
  readonly contentType = Metrics.contentType;
  readonly #metrics = new Metrics();
  readonly requests = this.#counter('requests_total', 'Requests to the registry, by call and status.');
  readonly sockets = this.#counter('sockets_total', 'Sockets accepted, by role.');
  readonly refusals = this.#counter('refusals_total', 'Requests and sockets refused, by status.');
  readonly frames = this.#counter('frames_total', 'Frames forwarded, by sender.');
  readonly bytes = this.#counter('bytes_total', 'Bytes of frames forwarded, by sender.');
  readonly dropped = this.#counter('frames_dropped_total', 'Frames that had nowhere to go, by cause.');
  readonly slowDisconnected = this.#counter(
    'sockets_cut_off_total',
    'Sockets cut off because they did not read.',
  );

  constructor(state: () => RelayState) {
    const one = (value: number) => [{ value }];
    this.#gauge('sockets_active', 'Sockets that are open.', () => [
      { labels: { role: 'executor' }, value: state().executors },
      { labels: { role: 'harness' }, value: state().harnesses },
    ]);
    this.#gauge('streams_active', 'Streams between harnesses and executors.', () => one(state().streams));
    this.#gauge('waiting_bytes', 'Bytes that wait for sockets.', () => one(state().waitingBytes));
    this.#gauge('leases', 'Executors that this node has.', () => one(state().leases));
    this.#gauge('store_available', '1 when the store can be asked.', () =>
      one(state().storeAvailable ? 1 : 0),
    );
    this.#metrics.gauge('process_resident_memory_bytes', 'Memory of the relay itself.', () =>
      one(process.memoryUsage.rss()),
    );
  }

  /** Everything in the exposition format. */
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
