import { ByteBudget } from '../../../base/byte-budget.ts';
import { withTimeout } from '../../../base/with-timeout.ts';
import type { Logger } from '../../../observability/log.ts';
import type { FrameSocket } from '../../../transport/frame-socket.ts';
import { CloseCode, type CloseReason } from '../../../transport/transport.ts';
import type { ExecutorTicket, HarnessTicket } from '../access/tickets.ts';
import { DRAIN_TIMEOUT_MS, RELAY_WINDOW_BYTES } from '../limits.ts';
import type { RelayRecords, SocketFacts } from '../records/relay-records.ts';
import type { Lease, NodeAddress, Store } from '../store/store.ts';
import { ExecutorSession } from './executor-session.ts';
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
  readonly #executors = new Map<string, ConnectedExecutor>();
  /** All that are not gone yet, also those that have lost their seat. */
  readonly #all = new Set<ConnectedExecutor>();
  readonly #window = new ByteBudget(RELAY_WINDOW_BYTES, () => {
    for (const { session } of this.#all) session.updateReading();
  });
  #drained: (() => void) | null = null;

  constructor(options: RendezvousOptions) {
    this.#options = options;
    this.leases = new Leases(options.store, options.node, options.log);
  }

  /** What there is at present. */
  get counts() {
    const sessions = [...this.#all].map(({ session }) => session);
    return {
      executors: sessions.length,
      harnesses: sessions.reduce((sum, session) => sum + session.harnessCount, 0),
      streams: sessions.reduce((sum, session) => sum + session.streamCount, 0),
      waitingBytes: this.#window.bytes,
    };
  }

  /** Seats an executor whose lease was claimed for this socket. The newest claim wins, whichever socket is here first. */
  addExecutor(socket: FrameSocket, lease: Lease, ticket: ExecutorTicket, address: string | null): void {
    const { environmentId } = ticket;
    const { records } = this.#options;
    const facts: SocketFacts = { ...ticket, address };
    const socketGone = records.socketOpened(facts);
    const session = new ExecutorSession(socket, {
      window: this.#window,
      forwarded: (sender, bytes) => records.forwarded(sender, bytes),
      dropped: (sender, cause) => records.dropped(sender, cause),
      slowDisconnected: () => records.slowDisconnected(environmentId),
      harnessGone: () => this.#checkDrained(),
      ended: (reason) => {
        socketGone(reason);
        void this.#leave(connected);
      },
    });
    const connected: ConnectedExecutor = {
      session,
      lease,
      tokenId: ticket.tokenId,
      harnessTokens: new Map(),
    };
    this.#all.add(connected);
    session.open();
    const before = this.#executors.get(environmentId);
    if (before !== undefined && before.lease.epoch > lease.epoch) {
      session.close(TAKEN_OVER);
      return;
    }
    this.#executors.set(environmentId, connected);
    before?.session.close(TAKEN_OVER);
    this.leases.hold(lease, () => session.close(TAKEN_OVER));
  }

  /** Where a harness with this ticket goes: its executor's seat, or why there is none. */
  findExecutor({
    environmentId,
    registrationId,
    nodeId,
  }: HarnessTicket): ConnectedExecutor | 'gone' | 'full' {
    const connected = this.#executors.get(environmentId);
    if (connected === undefined || nodeId !== this.#options.node().id) return 'gone';
    if (connected.lease.registration.registrationId !== registrationId) return 'gone';
    return connected.session.hasRoom ? connected : 'full';
  }

  joinHarness(
    socket: FrameSocket,
    connected: ConnectedExecutor,
    ticket: HarnessTicket,
    address: string | null,
  ): void {
    const { environmentId, registrationId, tokenId } = ticket;
    const gone = this.#options.records.socketOpened({
      role: 'harness',
      environmentId,
      registrationId,
      tokenId,
      address,
    });
    connected.harnessTokens.set(socket, tokenId);
    connected.session.join(socket, ticket.harnessKeyHash, (reason) => {
      connected.harnessTokens.delete(socket);
      gone(reason);
    });
  }

  /** Another executor has registered: the one before it loses its place. */
  supersede(environmentId: string, registrationId: string): void {
    const connected = this.#executors.get(environmentId);
    if (connected !== undefined && connected.lease.registration.registrationId !== registrationId) {
      connected.session.close(SUPERSEDED);
    }
  }

  /** Closes the sockets whose token is no longer good. */
  closeRevoked(isRevoked: (tokenId: string) => boolean): void {
    for (const { session, tokenId, harnessTokens } of this.#all) {
      if (isRevoked(tokenId)) session.close(REVOKED);
      for (const [socket, token] of harnessTokens) if (isRevoked(token)) socket.close(REVOKED);
    }
  }

  /** Sends executors away, which their harnesses follow, and waits until all are gone, for a limited time. */
  async drain(reason: string): Promise<void> {
    const gone = new Promise<void>((resolve) => {
      this.#drained = resolve;
    });
    for (const { session } of this.#all) session.close({ code: CloseCode.goingAway, reason });
    this.#checkDrained();
    await withTimeout(gone, DRAIN_TIMEOUT_MS);
    this.leases.close();
  }

  /** The lease is given up before the seat counts as gone, so that the store knows when the relay ends. */
  async #leave(connected: ConnectedExecutor): Promise<void> {
    const { environmentId } = connected.lease.registration;
    if (this.#executors.get(environmentId) === connected) this.#executors.delete(environmentId);
    await this.leases.release(connected.lease);
    connected.left = true;
    this.#checkDrained();
  }

  #checkDrained(): void {
    for (const connected of this.#all) {
      if (connected.left && connected.session.harnessCount === 0) this.#all.delete(connected);
    }
    if (this.#all.size === 0) this.#drained?.();
  }
}

/** A seat that is taken. */
export interface ConnectedExecutor {
  readonly session: ExecutorSession;
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
