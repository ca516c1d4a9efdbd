import { randomUUID } from 'node:crypto';
import type { Logger } from '../../observability/log.ts';
import { DESCRIPTORS_OF_THE_SERVER, PLACES_FOR_NEWCOMERS } from '../../server/limits.ts';
import { descriptorLimit } from '../../server/listen/descriptors.ts';
import type { SocketAddress } from '../../server/listen/listen-url.ts';
import type { TlsFiles } from '../../server/listen/tls.ts';
import { AuditLog } from '../../server/records/audit/audit-log.ts';
import { StartError } from '../../server/start-error.ts';
import { AccessTokens } from './access/access-tokens.ts';
import { Revocations } from './access/revocations.ts';
import { Seal } from './access/sealed-text.ts';
import { Tickets } from './access/tickets.ts';
import { Calls } from './http/calls.ts';
import { RelayListener } from './http/relay-listener.ts';
import { Upgrades } from './http/upgrades.ts';
import { DEFAULT_MAX_CONNECTIONS, MAX_CONNECTIONS_PER_ADDRESS } from './limits.ts';
import { RelayMetrics } from './records/relay-metrics.ts';
import { RelayRecords } from './records/relay-records.ts';
import { Registry } from './registry/registry.ts';
import { RequestBudget } from './registry/request-budget.ts';
import { Rendezvous } from './rendezvous/rendezvous.ts';
import { openStore } from './store/open-store.ts';

/** How a relay is set up. */
export interface RelayConfig {
  readonly address: SocketAddress;
  readonly tls: TlsFiles | null;
  /** What tokens and URLs are sealed with; the same on all nodes. At least 32 bytes. */
  readonly secret: string;
  /** `memory`, `file:///PATH`, or `redis://…`, which several nodes share. */
  readonly store: string;
  /** The HTTP URL under which clients reach any node; null is the address itself. */
  readonly publicUrl: string | null;
  /** The HTTP URL under which harnesses reach this node; null is the public URL. */
  readonly nodeUrl: string | null;
  /** A list of tokens that are no longer good. */
  readonly revokedFile: string | null;
  readonly auditLog: string | null;
  readonly metrics: boolean;
  readonly maxConnections?: number;
  readonly log: Logger;
  /** The time of day, which expiries go by. */
  readonly now?: () => number;
}

/** A relay that is up. */
export interface RunningRelay {
  /** Where clients reach it: what executors have as `--remote`. */
  readonly url: string;
  /** Sends everybody away and ends. */
  close(reason?: string): Promise<void>;
  /** Reads certificates and revoked tokens again, and goes on in a new audit log if the old one was moved away. */
  reload(): Promise<void>;
}

/** Starts a node of a relay; resolves once clients can connect. Throws StartError, or what the system says about the address. */
export async function startRelay(config: RelayConfig): Promise<RunningRelay> {
  const { log, now = Date.now, address } = config;
  const revocations = await Revocations.open(config.revokedFile);
  const store = await openStore(config.store, log);
  try {
    const seal = new Seal(config.secret);
    const tickets = new Tickets(seal, revocations, now);
    const urls = new NodeUrls(config);
    const node = {
      id: randomUUID(),
      get url() {
        return urls.node;
      },
    };
    const metrics = new RelayMetrics(() => ({
      ...rendezvous.counts,
      leases: rendezvous.leases.count,
      storeAvailable: store.available,
    }));
    const records = new RelayRecords(metrics, log, await openAudit(config));
    const rendezvous = new Rendezvous({ store, node, records, log });
    const registry = new Registry({
      store,
      tickets,
      get publicUrl() {
        return urls.public;
      },
      superseded: (environmentId, registrationId) => rendezvous.supersede(environmentId, registrationId),
    });
    const upgrades = new Upgrades(tickets, rendezvous, store);
    const listener = new RelayListener({
      address,
      tls: config.tls,
      basePaths: urls.basePaths,
      servesMetrics: config.metrics,
      calls: new Calls({
        tokens: new AccessTokens(seal, revocations, now),
        registry,
        budget: new RequestBudget(() => performance.now()),
        records,
      }),
      records,
      log,
      isReady: () => store.available,
      admit: (...request) => upgrades.admit(...request),
      ...connectionLimits(config.maxConnections ?? DEFAULT_MAX_CONNECTIONS),
    });
    let closing: Promise<void> | null = null;
    const shutDown = async (reason: string) => {
      listener.drain();
      await rendezvous.drain(reason);
      await listener.close();
      await store.close();
      await records.close();
    };
    try {
      const port = await listener.listen();
      urls.listensOn(port);
      log.info('the relay is up', { host: address.host, port, url: urls.http });
    } catch (error) {
      await records.close();
      throw error;
    }
    return {
      url: urls.http,
      close: (reason = 'the relay is shutting down') => {
        closing ??= shutDown(reason);
        return closing;
      },
      reload: async () => {
        await tryToReload(log, [() => listener.reload(), () => revocations.reload(), () => records.reopen()]);
        rendezvous.closeRevoked((tokenId) => revocations.has(tokenId));
      },
    };
  } catch (error) {
    await store.close();
    throw error;
  }
}

/** The URLs of a node. Those that are not configured are known once it listens. */
class NodeUrls {
  readonly #config: RelayConfig;
  #own = '';

  constructor(config: RelayConfig) {
    this.#config = config;
  }

  get http(): string {
    return this.#config.publicUrl ?? this.#own;
  }

  /** The websocket URL that leads to any node. */
  get public(): string {
    return toWebSocket(this.http);
  }

  /** The websocket URL that leads to this node. */
  get node(): string {
    return toWebSocket(this.#config.nodeUrl ?? this.http);
  }

  /** What stands in front of the relay's own paths, the longest first. */
  get basePaths(): readonly string[] {
    const urls = [this.#config.publicUrl, this.#config.nodeUrl].filter((url) => url !== null);
    const paths = urls.map((url) => new URL(url).pathname.replace(/\/+$/, ''));
    return [...new Set(paths)].sort((left, right) => right.length - left.length);
  }

  listensOn(port: number): void {
    const { address } = this.#config;
    const host = address.host.includes(':') ? `[${address.host}]` : address.host;
    this.#own = `${address.secure ? 'https' : 'http'}://${host}:${port}`;
  }
}

function toWebSocket(url: string): string {
  return url.replace(/^http/, 'ws').replace(/\/+$/, '');
}

function connectionLimits(wanted: number) {
  const allowed = (descriptorLimit() ?? Number.POSITIVE_INFINITY) - DESCRIPTORS_OF_THE_SERVER;
  const maxSockets = Math.max(2, Math.min(wanted + PLACES_FOR_NEWCOMERS, allowed));
  const maxConnections = Math.min(wanted, Math.max(1, maxSockets - PLACES_FOR_NEWCOMERS));
  return { maxSockets, maxConnections, maxConnectionsPerAddress: MAX_CONNECTIONS_PER_ADDRESS };
}

async function openAudit({ auditLog, log }: RelayConfig): Promise<AuditLog | null> {
  if (auditLog === null) return null;
  try {
    return await AuditLog.open({ path: auditLog, fsync: false, onError: 'continue', log });
  } catch (error) {
    throw new StartError(`cannot keep the audit log ${auditLog}: ${(error as Error).message}`);
  }
}

async function tryToReload(log: Logger, steps: readonly (() => Promise<void>)[]): Promise<void> {
  for (const step of steps) {
    await step().catch((error: Error) =>
      log.error('what was read before stays in use', { reason: error.message }),
    );
  }
  log.info('files were read again');
}
