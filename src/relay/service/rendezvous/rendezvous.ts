import { ByteBudget } from '../../../base/byte-budget.ts';
import { withTimeout } from '../../../base/with-timeout.ts';
import type { Logger } from '../../../observability/log.ts';
import type { FrameSocket } from '../../../transport/frame-socket.ts';
import { CloseCode, type CloseReason } from '../../../transport/transport.ts';
import type { ExecutorTicket, HarnessTicket } from '../access/tickets.ts';
import { DRAIN_TIMEOUT_MS, RELAY_WINDOW_BYTES } from '../limits.ts';
import type { RelayRecords, SocketFacts } from '../records/relay-records.ts';
import type { Lease, NodeAddress, Store } from '../store/store.ts';
import { ExecutorSeat } from './executor-seat.ts';
import { Leases } from './leases.ts';

/** What a rendezvous needs. */
export interface RendezvousOptions {
  readonly store: Store;
  /** This node; its URL is known when it listens. */
  node(): NodeAddress;
  readonly records: RelayRecords;
  readonly log: Logger;
}

/** Where executors wait for their harnesses: each connected executor has a seat here, and its lease in the store. */
export class Rendezvous {
  readonly leases: Leases;
  readonly #options: RendezvousOptions;
  readonly #seats = new Map<string, Seated>();
  /** All that are not gone yet, also those that have lost their seat. */
  readonly #all = new Set<Seated>();
  readonly #window = new ByteBudget(RELAY_WINDOW_BYTES, () => {
    for (const { seat } of this.#all) seat.updateReading();
  });
  #drained: (() => void) | null = null;

  constructor(options: RendezvousOptions) {
    this.#options = options;
    this.leases = new Leases(options.store, options.node, options.log);
  }

  /** What there is at present. */
  get counts() {
    const seats = [...this.#all].map(({ seat }) => seat);
    return {
      executors: seats.length,
      harnesses: seats.reduce((sum, seat) => sum + seat.harnessCount, 0),
      streams: seats.reduce((sum, seat) => sum + seat.streamCount, 0),
      waitingBytes: this.#window.bytes,
    };
  }

  /** Seats an executor whose lease was claimed for this socket. The newest claim wins, whichever socket is here first. */
  seatExecutor(socket: FrameSocket, lease: Lease, ticket: ExecutorTicket, address: string | null): void {
    const { environmentId } = ticket;
    const { records } = this.#options;
    const facts: SocketFacts = { ...ticket, address };
    const socketGone = records.socketOpened(facts);
    const seat = new ExecutorSeat(socket, {
      window: this.#window,
      forwarded: (sender, bytes) => records.forwarded(sender, bytes),
      dropped: (sender, cause) => records.dropped(sender, cause),
      cutOff: () => records.cutOff(environmentId),
      harnessGone: () => this.#tellDrained(),
      ended: (reason) => {
        socketGone(reason);
        void this.#leave(seated);
      },
    });
    const seated: Seated = { seat, lease, tokenId: ticket.tokenId, harnessTokens: new Map() };
    this.#all.add(seated);
    seat.open();
    const before = this.#seats.get(environmentId);
    if (before !== undefined && before.lease.epoch > lease.epoch) {
      seat.close(TAKEN_OVER);
      return;
    }
    this.#seats.set(environmentId, seated);
    before?.seat.close(TAKEN_OVER);
    this.leases.hold(lease, () => seat.close(TAKEN_OVER));
  }

  /** Where a harness with this ticket goes: its executor's seat, or why there is none. */
  findSeat({ environmentId, registrationId, nodeId }: HarnessTicket): Seated | 'gone' | 'full' {
    const seated = this.#seats.get(environmentId);
    if (seated === undefined || nodeId !== this.#options.node().id) return 'gone';
    if (seated.lease.registration.registrationId !== registrationId) return 'gone';
    return seated.seat.hasRoom ? seated : 'full';
  }

  joinHarness(socket: FrameSocket, seated: Seated, ticket: HarnessTicket, address: string | null): void {
    const { environmentId, registrationId, tokenId } = ticket;
    const gone = this.#options.records.socketOpened({
      role: 'harness',
      environmentId,
      registrationId,
      tokenId,
      address,
    });
    seated.harnessTokens.set(socket, tokenId);
    seated.seat.join(socket, ticket.harnessKeyHash, (reason) => {
      seated.harnessTokens.delete(socket);
      gone(reason);
    });
  }

  /** Another executor has registered: the one before it loses its place. */
  supersede(environmentId: string, registrationId: string): void {
    const seated = this.#seats.get(environmentId);
    if (seated !== undefined && seated.lease.registration.registrationId !== registrationId) {
      seated.seat.close(SUPERSEDED);
    }
  }

  /** Closes the sockets whose token is no longer good. */
  closeRevoked(isRevoked: (tokenId: string) => boolean): void {
    for (const { seat, tokenId, harnessTokens } of this.#all) {
      if (isRevoked(tokenId)) seat.close(REVOKED);
      for (const [socket, token] of harnessTokens) if (isRevoked(token)) socket.close(REVOKED);
    }
  }

  /** Sends executors away, which their harnesses follow, and waits until all are gone, for a limited time. */
  async drain(reason: string): Promise<void> {
    const gone = new Promise<void>((resolve) => {
      this.#drained = resolve;
    });
    for (const { seat } of this.#all) seat.close({ code: CloseCode.goingAway, reason });
    this.#tellDrained();
    await withTimeout(gone, DRAIN_TIMEOUT_MS);
    this.leases.close();
  }

  /** The lease is given up before the seat counts as gone, so that the store knows when the relay ends. */
  async #leave(seated: Seated): Promise<void> {
    const { environmentId } = seated.lease.registration;
    if (this.#seats.get(environmentId) === seated) this.#seats.delete(environmentId);
    await this.leases.release(seated.lease);
    seated.left = true;
    this.#tellDrained();
  }

  #tellDrained(): void {
    for (const seated of this.#all) {
      if (seated.left && seated.seat.harnessCount === 0) this.#all.delete(seated);
    }
    if (this.#all.size === 0) this.#drained?.();
  }
}

/** A seat that is taken. */
export interface Seated {
  readonly seat: ExecutorSeat;
  readonly lease: Lease;
  readonly tokenId: string;
  readonly harnessTokens: Map<FrameSocket, string>;
  /** Set when the executor is gone and its lease given up. */
  left?: true;
}

const TAKEN_OVER: CloseReason = {
  code: CloseCode.policyViolation,
  reason: 'a newer connection of this executor has taken over',
};
const SUPERSEDED: CloseReason = {
  code: CloseCode.policyViolation,
  reason: 'another executor has registered for this environment',
};
const REVOKED: CloseReason = { code: CloseCode.policyViolation, reason: 'the token was revoked' };
