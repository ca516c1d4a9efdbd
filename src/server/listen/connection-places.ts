import type { Duplex } from 'node:stream';
import { isLoopback } from './listen-url.ts';

/** How many connections there may be. */
export interface ConnectionLimits {
  /** Connections that have become websockets. */
  readonly maxConnections: number;
  /** Those of them that come from one address. */
  readonly maxConnectionsPerAddress: number;
  /** Connections in all, with those that have not become websockets yet; more than `maxConnections`. */
  readonly maxSockets: number;
}

/** What is asked of a connection: where it comes from. A socket in the file system has no answer. */
export type Peer = Duplex & {
  readonly remoteAddress?: string | undefined;
  readonly remotePort?: number | undefined;
  readonly localAddress?: string | undefined;
};

/**
 * Who is connected and who is about to be. Nobody can keep others out by opening connections and doing nothing with them: when there
 * are too many, the one that has been undecided for longest goes, while an honest client needs its place for a moment only.
 */
export class ConnectionPlaces {
  readonly #limits: ConnectionLimits;
  /** The longest waiting first. Behind TLS a connection has two sockets, so that its peer is the key. */
  readonly #pending = new Map<unknown, Duplex>();
  readonly #admitted = new Set<Duplex>();
  readonly #perAddress = new Map<string, number>();

  constructor(limits: ConnectionLimits) {
    this.#limits = limits;
  }

  /** Every connection that has been admitted and is still there. */
  get admitted(): Iterable<Duplex> {
    return this.#admitted;
  }

  /** Every connection that has not been admitted yet. */
  get pending(): Iterable<Duplex> {
    return this.#pending.values();
  }

  /** Notes a connection whose intent is unknown; returns the one that has to go for it, if any. */
  arrived(socket: Peer): Duplex | null {
    const key = keyOf(socket);
    const [oldest] = this.#pending;
    const isFull = this.#pending.size + this.#admitted.size >= this.#limits.maxSockets;
    const leaving = isFull ? oldest : undefined;
    if (leaving !== undefined) this.#pending.delete(leaving[0]);
    this.#pending.set(key, socket);
    socket.once('close', () => {
      if (this.#pending.get(key) === socket) this.#pending.delete(key);
    });
    return leaving?.[1] ?? null;
  }

  /** The limit that keeps this connection from becoming a websocket, as a sentence; null when it may. */
  obstacle(socket: Peer): string | null {
    const { maxConnections, maxConnectionsPerAddress } = this.#limits;
    if (this.#admitted.size >= maxConnections) {
      return 'the server has as many connections as it allows (maxConnections)';
    }
    const address = countedAddress(socket);
    if (address !== null && (this.#perAddress.get(address) ?? 0) >= maxConnectionsPerAddress) {
      return 'the server has as many connections from this address as it allows (maxConnectionsPerAddress)';
    }
    return null;
  }

  /** Gives the connection a place until it closes. */
  admit(socket: Peer): void {
    this.#pending.delete(keyOf(socket));
    this.#admitted.add(socket);
    const address = countedAddress(socket);
    if (address !== null) this.#perAddress.set(address, (this.#perAddress.get(address) ?? 0) + 1);
    socket.once('close', () => {
      this.#admitted.delete(socket);
      if (address !== null) this.#leaveAddress(address);
    });
  }

  #leaveAddress(address: string): void {
    const left = (this.#perAddress.get(address) ?? 1) - 1;
    if (left > 0) this.#perAddress.set(address, left);
    else this.#perAddress.delete(address);
  }
}

function keyOf(socket: Peer): unknown {
  const { remoteAddress, remotePort, localAddress } = socket;
  // One port of a peer may lead to several addresses of this machine.
  return remotePort === undefined ? socket : `${remoteAddress} ${remotePort} ${localAddress}`;
}

/**
 * What is counted as one address: an IPv4 address, or the 64 bits that one IPv6 customer has to himself. Null for this machine, where
 * everybody has the same address, a proxy for many clients included.
 */
export function countedAddress({ remoteAddress }: Pick<Peer, 'remoteAddress'>): string | null {
  if (remoteAddress === undefined || isLoopback(remoteAddress)) return null;
  if (!remoteAddress.includes(':')) return remoteAddress;
  if (remoteAddress.startsWith('::ffff:')) return remoteAddress.slice('::ffff:'.length);
  const [head = '', tail] = remoteAddress.split('%', 1)[0]!.split('::');
  const groups = head === '' ? [] : head.split(':');
  const behind = tail === undefined || tail === '' ? [] : tail.split(':');
  const zeros = Array<string>(Math.max(0, 8 - groups.length - behind.length)).fill('0');
  return `${[...groups, ...(tail === undefined ? [] : zeros), ...behind].slice(0, 4).join(':')}::/64`;
}
