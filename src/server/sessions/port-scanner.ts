import { setTimeout as delay } from 'node:timers/promises';
import { NetworkError } from '../../network/errors.ts';
import type { ListeningPort, ListeningPorts } from '../../process/tree/listening-ports.ts';
import { PORT_POLL_MS, PORT_SCAN_REST_FACTOR, PORT_SCAN_REST_MS } from '../limits.ts';
import type { SharedProcess } from './shared-process.ts';

/** The ports of each process that has any, by its reference. */
export type PortsByRef = ReadonlyMap<string, readonly ListeningPort[]>;

/** The processes of a server. */
interface Processes {
  list(owner: null): Iterable<Pick<SharedProcess, 'ref' | 'end' | 'process'>>;
}

/**
 * The listening ports of all processes of a server. One scan runs at a time, and it serves all that asked before it began. The server
 * scans repeatedly only while a client watches.
 */
export class PortScanner {
  readonly #processes: Processes;
  readonly #load: () => Promise<ListeningPorts>;
  readonly #watchers = new Set<(ports: PortsByRef) => void>();
  #loading: Promise<ListeningPorts> | null = null;
  #running: Promise<unknown> = Promise.resolve();
  #next: Promise<PortsByRef> | null = null;
  #restUntil = 0;
  #polling = false;

  /** `load` creates what scans; called for the first scan. */
  constructor(processes: Processes, load: () => Promise<ListeningPorts>) {
    this.#processes = processes;
    this.#load = load;
  }

  /** Resolves to the ports at some time after the call. Rejects with NetworkError where they cannot be found. */
  scan(): Promise<PortsByRef> {
    if (process.platform !== 'linux') {
      return Promise.reject(
        new NetworkError(
          'refused',
          'the ports of programs are only known on Linux: this server has no /proc',
        ),
      );
    }
    this.#next ??= this.#running.then(() => this.#begin());
    return this.#next;
  }

  /** Calls the listener after every scan, about once per second. Returns a function that ends this. */
  watch(listener: (ports: PortsByRef) => void): () => void {
    this.#watchers.add(listener);
    if (!this.#polling) void this.#poll();
    return () => this.#watchers.delete(listener);
  }

  async #begin(): Promise<PortsByRef> {
    const restMs = this.#restUntil - performance.now();
    if (restMs > 0) await delay(restMs);
    this.#next = null;
    const scanning = this.#scanNow();
    this.#running = scanning.catch(() => {});
    return scanning;
  }

  async #scanNow(): Promise<PortsByRef> {
    this.#loading ??= this.#load();
    const ports = await this.#loading;
    const begun = performance.now();
    const refs = new Map(
      [...this.#processes.list(null)].flatMap(({ ref, end, process }) =>
        end === null && process !== null ? [[process.tree, ref] as const] : [],
      ),
    );
    const found = await ports.scan(refs.keys());
    const tookMs = performance.now() - begun;
    this.#restUntil = begun + tookMs + Math.max(PORT_SCAN_REST_MS, tookMs * PORT_SCAN_REST_FACTOR);
    return new Map([...found].map(([tree, listed]) => [refs.get(tree)!, listed]));
  }

  async #poll(): Promise<void> {
    this.#polling = true;
    for (;;) {
      await delay(PORT_POLL_MS, undefined, { ref: false });
      if (this.#watchers.size === 0) break;
      const ports = await this.scan();
      for (const listener of [...this.#watchers]) listener(ports);
    }
    this.#polling = false;
  }
}
