import type { Revocations } from '../../../listener/revocations.ts';
import { EXECUTOR_TICKET_MS, HARNESS_TICKET_MS } from '../limits.ts';
import type { InvalidCredential } from './access-tokens.ts';
import type { Seal } from './sealed-text.ts';

/** The ticket in an executor's websocket URL. */
export interface ExecutorTicket {
  readonly role: 'executor';
  readonly environmentId: string;
  readonly registrationId: string;
  /** The token for which the URL was issued. */
  readonly tokenId: string;
}

/** The ticket in a harness's websocket URL. It is valid only at the node to which the executor is connected. */
export interface HarnessTicket {
  readonly role: 'harness';
  readonly environmentId: string;
  readonly registrationId: string;
  readonly tokenId: string;
  readonly nodeId: string;
  readonly harnessKeyHash: string;
}

export type Ticket = ExecutorTicket | HarnessTicket;

/** Creates and checks the tickets in websocket URLs. A ticket is the only credential of an upgrade request. */
export class Tickets {
  readonly #seal: Seal;
  readonly #revocations: Revocations;
  readonly #now: () => number;

  constructor(seal: Seal, revocations: Revocations, now: () => number) {
    this.#seal = seal;
    this.#revocations = revocations;
    this.#now = now;
  }

  /** Returns a URL with a ticket. The ticket expires with the token at the latest, at `tokenExpiresAt` in seconds. */
  url(base: string, ticket: Ticket, tokenExpiresAt: number | null): string {
    const lifetime = ticket.role === 'executor' ? EXECUTOR_TICKET_MS : HARNESS_TICKET_MS;
    const tokenExpiryMs = tokenExpiresAt === null ? Number.POSITIVE_INFINITY : tokenExpiresAt * 1_000;
    const sealed = this.#seal.write('ticket', {
      ...ticket,
      expiresAtMs: Math.min(this.#now() + lifetime, tokenExpiryMs),
    });
    return `${base}${RENDEZVOUS_PATH}${ticket.environmentId}?ticket=${sealed}`;
  }

  /** Returns null for a text that this relay did not issue. It may be a guess. */
  check(text: string): Ticket | InvalidCredential | null {
    const sealed = this.#seal.read('ticket', text);
    if (sealed === null) return null;
    const { expiresAtMs, ...ticket } = sealed as unknown as Ticket & { readonly expiresAtMs: number };
    const { tokenId } = ticket;
    if (this.#now() >= expiresAtMs) return { problem: 'expired', tokenId };
    return this.#revocations.has(tokenId) ? { problem: 'revoked', tokenId } : (ticket as Ticket);
  }
}

/** Path of the websockets, followed by the environment id. */
const RENDEZVOUS_PATH = '/cloud/rendezvous/';
