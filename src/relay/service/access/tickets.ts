import type { Revocations } from '../../../listener/revocations.ts';
import { EXECUTOR_TICKET_MS, HARNESS_TICKET_MS } from '../limits.ts';
import type { NoLongerGood } from './access-tokens.ts';
import type { Seal } from './sealed-text.ts';

/** What an executor's websocket URL proves. */
export interface ExecutorTicket {
  readonly role: 'executor';
  readonly environmentId: string;
  readonly registrationId: string;
  /** The token that the URL was given for. */
  readonly tokenId: string;
}

/** What a harness's websocket URL proves. It leads to the one node that has the executor. */
export interface HarnessTicket {
  readonly role: 'harness';
  readonly environmentId: string;
  readonly registrationId: string;
  readonly tokenId: string;
  readonly nodeId: string;
  readonly harnessKeyHash: string;
}

export type Ticket = ExecutorTicket | HarnessTicket;

/** Makes and checks the tickets in websocket URLs: an upgrade request carries no other credential. */
export class Tickets {
  readonly #seal: Seal;
  readonly #revocations: Revocations;
  readonly #now: () => number;

  constructor(seal: Seal, revocations: Revocations, now: () => number) {
    this.#seal = seal;
    this.#revocations = revocations;
    this.#now = now;
  }

  /** The URL below `base` that carries a ticket. It does not outlive the token, which ends at `tokenExpiresAt` (in seconds). */
  url(base: string, ticket: Ticket, tokenExpiresAt: number | null): string {
    const lifetime = ticket.role === 'executor' ? EXECUTOR_TICKET_MS : HARNESS_TICKET_MS;
    const tokenEnd = tokenExpiresAt === null ? Number.POSITIVE_INFINITY : tokenExpiresAt * 1_000;
    const sealed = this.#seal.write('ticket', {
      ...ticket,
      expiresAtMs: Math.min(this.#now() + lifetime, tokenEnd),
    });
    return `${base}${RENDEZVOUS_PATH}${ticket.environmentId}?ticket=${sealed}`;
  }

  /** Null for a text that is no ticket of this relay, and may be a guess. */
  check(text: string): Ticket | NoLongerGood | null {
    const sealed = this.#seal.read('ticket', text);
    if (sealed === null) return null;
    const { expiresAtMs, ...ticket } = sealed as unknown as Ticket & { readonly expiresAtMs: number };
    const { tokenId } = ticket;
    if (this.#now() >= expiresAtMs) return { problem: 'expired', tokenId };
    return this.#revocations.has(tokenId) ? { problem: 'revoked', tokenId } : (ticket as Ticket);
  }
}

/** Where the websockets are, in front of the environment's id. */
export const RENDEZVOUS_PATH = '/cloud/rendezvous/';
