import type { Duplex } from 'node:stream';
import { TurnCredit } from '../../../transport/turn-credit.ts';
import { MAX_SOCKETS_PER_ENVIRONMENT } from '../limits.ts';

/**
 * The environments with open websockets. They belong to tenants that do not trust each other: none may take the connections of the
 * others, nor more of the event loop because it has more connections.
 */
export class Tenants {
  readonly #maxSockets: number;
  readonly #tenants = new Map<string, Tenant>();

  /** No environment gets more than half of `maxConnections`. */
  constructor(maxConnections: number) {
    this.#maxSockets = Math.min(MAX_SOCKETS_PER_ENVIRONMENT, Math.max(MIN_SOCKETS, maxConnections / 2));
  }

  /** Counts the socket until it closes, and returns the credit of its environment. Returns null when the environment has too many. */
  add(environmentId: string, socket: Duplex): TurnCredit | null {
    const tenant = this.#tenants.get(environmentId) ?? { sockets: 0, credit: new TurnCredit() };
    if (tenant.sockets >= this.#maxSockets) return null;
    tenant.sockets++;
    this.#tenants.set(environmentId, tenant);
    const remove = () => {
      if (--tenant.sockets === 0) this.#tenants.delete(environmentId);
    };
    if (socket.closed) remove();
    else socket.once('close', remove);
    return tenant.credit;
  }
}

interface Tenant {
  sockets: number;
  readonly credit: TurnCredit;
}

/** An executor and a harness. */
const MIN_SOCKETS = 2;
