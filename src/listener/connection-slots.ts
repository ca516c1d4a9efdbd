import { readFileSync } from 'node:fs';
import type { Duplex } from 'node:stream';
import { isLoopback } from './listen-url.ts';

/** How many connections a listener accepts. */
export interface ConnectionLimits {
  /** Connections that have become websockets. */
  readonly maxConnections: number;
  /** Websockets from one address. */
  readonly maxConnectionsPerAddress: number;
  /** All connections, including those that are not websockets yet; more than `maxConnections`. */
  readonly maxSockets: number;
}

/** A connection with its addresses. A Unix socket has none. */
export type Peer = Duplex & {
  readonly remoteAddress?: string | undefined;
  readonly remotePort?: number | undefined;
  readonly localAddress?: string | undefined;
};

/**
 * Counts the pending and the admitted connections of a listener. Idle connections cannot keep other clients out: when all slots are
 * taken, the oldest pending connection is evicted. A regular client occupies a pending slot only for a moment.
 */
export class ConnectionSlots {
  readonly #limits: ConnectionLimits;
  /** Oldest first. A TLS connection has two socket objects, so the key is the peer. */
  readonly #pending = new Map<unknown, Duplex>();
  readonly #admitted = new Set<Duplex>();
  readonly #perAddress = new Map<string, number>();

  constructor(limits: ConnectionLimits) {
    this.#limits = limits;
  }

  /** The open connections that were admitted. */
  get admitted(): Iterable<Duplex> {
    return this.#admitted;
  }

  /** The open connections that are not admitted yet. */
  get pending(): Iterable<Duplex> {
    return this.#pending.values();
  }

  /** Adds a new connection as pending. @returns the connection to evict for it, or null. */
  addPending(socket: Peer): Duplex | null {
    const key = keyOf(socket);
    const [oldest] = this.#pending;
    const isFull = this.#pending.size + this.#admitted.size >= this.#limits.maxSockets;
    const evicted = isFull ? oldest : undefined;
    if (evicted !== undefined) this.#pending.delete(evicted[0]);
    this.#pending.set(key, socket);
    socket.once('close', () => {
      if (this.#pending.get(key) === socket) this.#pending.delete(key);
    });
    return evicted?.[1] ?? null;
  }

  /** @returns the limit that forbids this connection to become a websocket, as a sentence; null when it may. */
  limitReached(socket: Peer): string | null {
    const { maxConnections, maxConnectionsPerAddress } = this.#limits;
    if (this.#admitted.size >= maxConnections) {
      return 'the server has reached its limit of connections (maxConnections)';
    }
    const address = countedAddress(socket);
    if (address !== null && (this.#perAddress.get(address) ?? 0) >= maxConnectionsPerAddress) {
      return 'the server has reached its limit of connections from one address (maxConnectionsPerAddress)';
    }
    return null;
  }

  /** Moves the connection to an admitted slot, which it keeps until it closes. */
  admit(socket: Peer): void {
    this.#pending.delete(keyOf(socket));
    this.#admitted.add(socket);
    const address = countedAddress(socket);
    if (address !== null) this.#perAddress.set(address, (this.#perAddress.get(address) ?? 0) + 1);
    socket.once('close', () => {
      this.#admitted.delete(socket);
      if (address !== null) this.#releaseAddress(address);
    });
  }

  #releaseAddress(address: string): void {
    const left = (this.#perAddress.get(address) ?? 1) - 1;
    if (left > 0) this.#perAddress.set(address, left);
    else this.#perAddress.delete(address);
  }
}

function keyOf(socket: Peer): unknown {
  const { remoteAddress, remotePort, localAddress } = socket;
  // A peer may connect from one port to several addresses of this machine.
  return remotePort === undefined ? socket : `${remoteAddress} ${remotePort} ${localAddress}`;
}

/**
 * @returns the unit that address limits count: an IPv4 address, or the /64 prefix of an IPv6 address, which one customer usually owns.
 * Null for loopback: all local clients share that address, and a local proxy may stand for many clients.
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

/**
 * @returns how many descriptors this process may open (RLIMIT_NOFILE); null where the system does not report it. Node raises the soft
 * limit to the hard limit at start.
 */
export function descriptorLimit(): number | null {
  try {
    const [, limit] = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'latin1')) ?? [];
    return limit === undefined ? null : Number(limit);
  } catch {
    return null;
  }
}
