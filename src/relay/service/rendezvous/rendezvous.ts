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

/** Dependencies of the rendezvous. */
interface RendezvousOptions {
  readonly store: Store;
  /** This node. Its URL is known after it listens. */
  node(): NodeAddress;
  readonly records: RelayRecords;
  readonly log: Logger;
}

/** Connects executors with their harnesses. Each connected executor has a session here and a lease in the store. */
export class Rendezvous {
  readonly leases: Leases;
  readonly #options: RendezvousOptions;
  readonly #executors = new Map<string, ConnectedExecutor>();
  /** All that are still connected, including those that were replaced. */
  readonly #all = new Set<ConnectedExecutor>();
  readonly #window = new ByteBudget(RELAY_WINDOW_BYTES, () => {
    for (const { session } of this.#all) session.updateReading();
  });
  #drained: (() => void) | null = null;

  constructor(options: RendezvousOptions) {
    this.#options = options;
    this.leases = new Leases(options.store, options.node, options.log);
  }

  /** Current counts for metrics. */
  get counts() {
    const sessions = [...this.#all].map(({ session }) => session);
    return {
      executors: sessions.length,
      harnesses: sessions.reduce((sum, session) => sum + session.harnessCount, 0),
      streams: sessions.reduce((sum, session) => sum + session.streamCount, 0),
      queuedBytes: this.#window.bytes,
    };
  }

  /** Adds an executor whose lease was claimed for this socket. The newest lease wins, whichever socket arrives first. */
  addExecutor(socket: FrameSocket, lease: Lease, ticket: ExecutorTicket, address: string | null): void {
    const { environmentId } = ticket;
    const { records } = this.#options;
    const facts: SocketFacts = { ...ticket, address };
    const socketGone = records.socketOpened(facts);
    const session = new ExecutorSession(socket, {
      window: this.#window,
      shareBytes: () => RELAY_WINDOW_BYTES / 2 / this.#all.size,
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

  /** Returns the executor for a harness's ticket, or why there is none. */
  findExecutor({
    environmentId,
    registrationId,
    nodeId,
  }: HarnessTicket): ConnectedExecutor | 'gone' | 'full' {
    const connected = this.#executors.get(environmentId);
    if (connected === undefined || nodeId !== this.#options.node().id) return 'gone';
    if (connected.lease.registration.registrationId !== registrationId) return 'gone';
    return connected.session.acceptsHarness ? connected : 'full';
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

  /** Closes the previous executor after another one has registered. */
  supersede(environmentId: string, registrationId: string): void {
    const connected = this.#executors.get(environmentId);
    if (connected !== undefined && connected.lease.registration.registrationId !== registrationId) {
      connected.session.close(SUPERSEDED);
    }
  }

  /** Closes the sockets of revoked tokens. */
  closeRevoked(isRevoked: (tokenId: string) => boolean): void {
    for (const { session, tokenId, harnessTokens } of this.#all) {
      if (isRevoked(tokenId)) session.close(REVOKED);
      for (const [socket, token] of harnessTokens) if (isRevoked(token)) socket.close(REVOKED);
    }
  }

  /** Closes all executors and their harnesses, and waits for a limited time until they have disconnected. */
  async drain(reason: string): Promise<void> {
    const gone = new Promise<void>((resolve) => {
      this.#drained = resolve;
    });
    for (const { session } of this.#all) session.close({ code: CloseCode.goingAway, reason });
    this.#checkDrained();
    await withTimeout(gone, DRAIN_TIMEOUT_MS);
    this.leases.close();
  }

  /** Releases the lease before the executor counts as disconnected. A shutdown therefore waits for the store. */
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

/** A connected executor. */
interface ConnectedExecutor {
  readonly session: ExecutorSession;
  readonly lease: Lease;
  readonly tokenId: string;
  readonly harnessTokens: Map<FrameSocket, string>;
  /** Set when the executor has disconnected and its lease is released. */
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
