import { NetworkError } from '../../network/errors.ts';
import { isLoopbackAddress } from '../../network/proxy/addresses.ts';
import { printable } from '../../protocol/errors.ts';
import type { NotificationParamsOf } from '../../protocol/registry.ts';
import { MAX_REPORTED_PORTS, PORT_WATCHES_PER_CONNECTION } from '../limits.ts';
import type { PortScanner, PortsByRef } from './port-scanner.ts';
import type { SharedProcess } from './shared-process.ts';

type WatchedPorts = NotificationParamsOf<'ports/changed'>['ports'];

/** The client of the watches. */
interface PortsPeer {
  readonly saturated: boolean;
  notify(method: 'ports/changed', params: NotificationParamsOf<'ports/changed'>): void;
}

/** The processes of the connection's owner. */
interface OwnProcesses {
  list(scope: 'owner'): Iterable<Pick<SharedProcess, 'ref'>>;
}

/** The port watches of one connection. */
export class ConnectionPorts {
  readonly #peer: PortsPeer;
  readonly #scanner: PortScanner;
  readonly #processes: OwnProcesses;
  /** Functions that end the watches; null while a watch is being opened. */
  readonly #watches = new Map<string, (() => void) | null>();
  #isDisposed = false;

  constructor(peer: PortsPeer, scanner: PortScanner, processes: OwnProcesses) {
    this.#peer = peer;
    this.#scanner = scanner;
    this.#processes = processes;
  }

  /** Opens a watch. Changes are reported after `start` has been called. Rejects with NetworkError. */
  async watch(watchId: string): Promise<{ readonly ports: WatchedPorts; readonly start: () => void }> {
    if (this.#isDisposed) throw new NetworkError('failed', 'ports/watch: the connection has ended');
    if (this.#watches.has(watchId)) {
      throw new NetworkError('invalid', `ports/watch: watchId \`${printable(watchId)}\` is in use`);
    }
    if (this.#watches.size >= PORT_WATCHES_PER_CONNECTION) {
      throw new NetworkError(
        'limit',
        `${PORT_WATCHES_PER_CONNECTION} port watches are open on this connection, the maximum`,
      );
    }
    this.#watches.set(watchId, null);
    try {
      const ports = this.#own(await this.#scanner.scan());
      return { ports, start: () => this.#start(watchId, JSON.stringify(ports)) };
    } catch (error) {
      this.#watches.delete(watchId);
      throw error;
    }
  }

  unwatch(watchId: string): void {
    this.#watches.get(watchId)?.();
    this.#watches.delete(watchId);
  }

  /** Ends all watches permanently. */
  dispose(): void {
    this.#isDisposed = true;
    for (const watchId of [...this.#watches.keys()]) this.unwatch(watchId);
  }

  #start(watchId: string, first: string): void {
    // It may have been ended meanwhile.
    if (this.#watches.get(watchId) !== null) return;
    let last = first;
    const stop = this.#scanner.watch((found) => {
      // A list that is not sent is not missed: the next one is complete too.
      if (this.#peer.saturated) return;
      const ports = this.#own(found);
      const text = JSON.stringify(ports);
      if (text === last) return;
      last = text;
      this.#peer.notify('ports/changed', { watchId, ports });
    });
    this.#watches.set(watchId, stop);
  }

  /** The ports of the owner's processes, in the order of their starts, up to the limit. */
  #own(found: PortsByRef): WatchedPorts {
    const ports: WatchedPorts = [];
    for (const { ref } of this.#processes.list('owner')) {
      for (const { port, address, ownNetwork } of found.get(ref) ?? []) {
        const isLocal = isLoopbackAddress(address) || ANY_ADDRESS.has(address);
        ports.push({ port, address, ref, reachable: isLocal && !ownNetwork });
        if (ports.length === MAX_REPORTED_PORTS) return ports;
      }
    }
    return ports;
  }
}

/** A program that listens on one of these listens on the loopback too. */
const ANY_ADDRESS: ReadonlySet<string> = new Set(['0.0.0.0', '::']);
