import type { FrameSocket } from '../../../transport/frame-socket.ts';
import type { ExecutorTicket, HarnessTicket, Tickets } from '../access/tickets.ts';
import { RequestError } from '../registry/request-error.ts';
import type { Rendezvous } from '../rendezvous/rendezvous.ts';
import { type Lease, type Store, StoreUnavailableError } from '../store/store.ts';
import { GuessError, storeUnavailable } from './calls.ts';

/** An upgrade request that may go through. Exactly one of the two is called. */
export interface Admission {
  accept(socket: FrameSocket): void;
  /** The request has come to nothing. */
  abandon(): void;
}

/** Decides who gets a websocket, by the ticket in its URL. */
export class Upgrades {
  readonly #tickets: Tickets;
  readonly #rendezvous: Rendezvous;
  readonly #store: Store;

  constructor(tickets: Tickets, rendezvous: Rendezvous, store: Store) {
    this.#tickets = tickets;
    this.#rendezvous = rendezvous;
    this.#store = store;
  }

  /**
   * Throws RequestError: 401 has both kinds of clients ask the registry for a new URL, 503 has them come back with the one they have.
   */
  async admit(environmentId: string, text: string, address: string | null): Promise<Admission> {
    const ticket = this.#tickets.check(text);
    if (ticket === null) throw new GuessError('the URL is not one of this relay');
    if ('problem' in ticket) {
      // An executor that asks for a new URL and gets none gives up for good.
      if (ticket.problem === 'expired' && !this.#store.available) throw storeUnavailable();
      throw stale(`the URL is ${ticket.problem}`, ticket.tokenId);
    }
    if (ticket.environmentId !== environmentId) throw new GuessError('the URL is for another environment');
    return ticket.role === 'executor'
      ? await this.#admitExecutor(ticket, text, address)
      : this.#admitHarness(ticket, address);
  }

  async #admitExecutor(ticket: ExecutorTicket, text: string, address: string | null): Promise<Admission> {
    const lease = await this.#claim(ticket);
    if (lease === null) throw stale('the registration is not known any more', ticket.tokenId);
    const abandon = () => void this.#rendezvous.leases.release(lease);
    // Sockets of revoked tokens are closed at once; this one was none yet when that happened.
    const checked = this.#tickets.check(text);
    if (checked !== null && 'problem' in checked) {
      abandon();
      throw stale(`the URL is ${checked.problem}`, ticket.tokenId);
    }
    return {
      accept: (socket) => this.#rendezvous.addExecutor(socket, lease, ticket, address),
      abandon,
    };
  }

  #admitHarness(ticket: HarnessTicket, address: string | null): Admission {
    const executor = this.#rendezvous.findExecutor(ticket);
    if (executor === 'gone') throw stale('the executor is not connected here any more', ticket.tokenId);
    if (executor === 'full') {
      const reason = 'the environment has too many harnesses';
      throw new RequestError(503, 'too_many_harnesses', reason, ticket.tokenId);
    }
    return {
      accept: (socket) => this.#rendezvous.joinHarness(socket, executor, ticket, address),
      abandon: () => {},
    };
  }

  async #claim({ environmentId, registrationId }: ExecutorTicket): Promise<Lease | null> {
    try {
      return await this.#rendezvous.leases.claim(environmentId, registrationId);
    } catch (error) {
      if (error instanceof StoreUnavailableError) throw storeUnavailable();
      throw error;
    }
  }
}

function stale(reason: string, tokenId: string): RequestError {
  return new RequestError(401, 'stale_url', reason, tokenId);
}
