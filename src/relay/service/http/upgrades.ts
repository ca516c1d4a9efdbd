import type { Duplex } from 'node:stream';
import { addressOf } from '../../../listener/web-server.ts';
import type { FrameSocket } from '../../../transport/frame-socket.ts';
import type { TurnCredit } from '../../../transport/turn-credit.ts';
import type { ExecutorTicket, HarnessTicket, Ticket, Tickets } from '../access/tickets.ts';
import { RequestError } from '../registry/request-error.ts';
import type { Rendezvous } from '../rendezvous/rendezvous.ts';
import { type Lease, type Store, StoreUnavailableError } from '../store/store.ts';
import { type RequestBudget, storeUnavailable, UnknownCredentialError } from './calls.ts';
import type { Tenants } from './tenants.ts';

/** An accepted upgrade request. The listener calls exactly one of the two methods. */
export interface Admission {
  /** The credit that the sockets of the environment share. */
  readonly credit: TurnCredit;
  accept(socket: FrameSocket): void;
  /** The upgrade did not complete. */
  abandon(): void;
}

/** Dependencies of {@link Upgrades}. */
interface UpgradesOptions {
  readonly tickets: Tickets;
  readonly rendezvous: Rendezvous;
  readonly store: Store;
  readonly budget: RequestBudget;
  readonly tenants: Tenants;
}

/** Authorizes websockets by the ticket in their URL. */
export class Upgrades {
  readonly #tickets: Tickets;
  readonly #rendezvous: Rendezvous;
  readonly #store: Store;
  readonly #budget: RequestBudget;
  readonly #tenants: Tenants;

  constructor({ tickets, rendezvous, store, budget, tenants }: UpgradesOptions) {
    this.#tickets = tickets;
    this.#rendezvous = rendezvous;
    this.#store = store;
    this.#budget = budget;
    this.#tenants = tenants;
  }

  /** Throws RequestError. At 401 clients ask the registry for a new URL; at 503 they retry with the same URL. */
  async admit(environmentId: string, text: string, socket: Duplex): Promise<Admission> {
    const ticket = this.#tickets.check(text);
    if (ticket === null) throw new UnknownCredentialError('the URL was not issued by this relay');
    if ('problem' in ticket) {
      // Without the store the registry cannot issue a new URL, and the executor would give up permanently.
      if (ticket.problem === 'expired' && !this.#store.available) throw storeUnavailable();
      throw stale(`the URL is ${ticket.problem}`, ticket.tokenId);
    }
    if (ticket.environmentId !== environmentId)
      throw new UnknownCredentialError('the URL is for another environment');
    const credit = this.#shareOf(ticket, socket);
    const address = addressOf(socket);
    return ticket.role === 'executor'
      ? { credit, ...(await this.#admitExecutor(ticket, text, address)) }
      : { credit, ...this.#admitHarness(ticket, address) };
  }

  /** Counts the socket for its environment. Throws when the environment opens websockets too often, or has too many. */
  #shareOf({ role, environmentId, tokenId }: Ticket, socket: Duplex): TurnCredit {
    if (!this.#budget.spend(`${role} ${environmentId}`)) {
      const reason = `the ${role}s of this environment connect too often; try again later`;
      throw new RequestError(503, 'too_many_requests', reason, tokenId);
    }
    const credit = this.#tenants.add(environmentId, socket);
    if (credit !== null) return credit;
    const reason = 'the environment has too many connections; try again later';
    throw new RequestError(503, 'too_many_connections', reason, tokenId);
  }

  async #admitExecutor(ticket: ExecutorTicket, text: string, address: string | null): Promise<Outcome> {
    const lease = await this.#claim(ticket);
    if (lease === null) throw stale('the registration no longer exists', ticket.tokenId);
    const abandon = () => void this.#rendezvous.leases.release(lease);
    // The token may have been revoked during the claim, when there was no socket to close yet.
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

  #admitHarness(ticket: HarnessTicket, address: string | null): Outcome {
    const executor = this.#rendezvous.findExecutor(ticket);
    if (executor === 'gone') throw stale('the executor is no longer connected to this node', ticket.tokenId);
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

type Outcome = Omit<Admission, 'credit'>;

function stale(reason: string, tokenId: string): RequestError {
  return new RequestError(401, 'stale_url', reason, tokenId);
}
