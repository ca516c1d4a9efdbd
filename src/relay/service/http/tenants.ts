import type { Duplex } from 'node:stream';
import { MAX_SOCKETS_PER_ENVIRONMENT } from '../limits.ts';

/**
 * Counts the websockets of each environment, from its accepted ticket to the end of the connection. The environments of a relay belong
 * to tenants that do not trust each other: none may take the connections of the others.
 */
export class Tenants {
  readonly #maxSockets: number;
  readonly #sockets = new Map<string, number>();

  /** No environment gets more than half of `maxConnections`. */
  constructor(maxConnections: number) {
    this.#maxSockets = Math.min(MAX_SOCKETS_PER_ENVIRONMENT, Math.max(MIN_SOCKETS, maxConnections / 2));
  }

  /** Counts the socket until it closes. Returns false, and counts nothing, when the environment has too many. */
  add(environmentId: string, socket: Duplex): boolean {
    const count = this.#sockets.get(environmentId) ?? 0;
    if (count >= this.#maxSockets) return false;
    this.#sockets.set(environmentId, count + 1);
    socket.once('close', () => this.#remove(environmentId));
    if (socket.closed) this.#remove(environmentId);
    return true;
  }

  #remove(environmentId: string): void {
    const left = this.#sockets.get(environmentId)! - 1;
    if (left === 0) this.#sockets.delete(environmentId);
    else this.#sockets.set(environmentId, left);
  }
}

/** An executor and a harness. */
const MIN_SOCKETS = 2;
