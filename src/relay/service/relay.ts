import { randomUUID } from 'node:crypto';
import { AuditLog } from '../../audit/audit-log.ts';
import { descriptorLimit } from '../../listener/connection-slots.ts';
import { RESERVED_DESCRIPTORS, SLOTS_FOR_NEW_CLIENTS } from '../../listener/limits.ts';
import type { SocketAddress } from '../../listener/listen-url.ts';
import { Revocations } from '../../listener/revocations.ts';
import { StartError } from '../../listener/start-error.ts';
import type { TlsFiles } from '../../listener/tls.ts';
import type { Logger } from '../../observability/log.ts';
import { AccessTokens } from './access/access-tokens.ts';
import { Seal } from './access/sealed-text.ts';
import { Tickets } from './access/tickets.ts';
import { Calls } from './http/calls.ts';
import { RelayListener } from './http/relay-listener.ts';
import { Upgrades } from './http/upgrades.ts';
import { DEFAULT_MAX_CONNECTIONS, MAX_CONNECTIONS_PER_ADDRESS } from './limits.ts';
import { NodeUrls } from './node-urls.ts';
import { RelayMetrics } from './records/relay-metrics.ts';
import { RelayRecords } from './records/relay-records.ts';
import { Registry } from './registry/registry.ts';
import { RequestBudget } from './registry/request-budget.ts';
import { Rendezvous } from './rendezvous/rendezvous.ts';
import { openStore } from './store/open-store.ts';
import type { FileLock } from './store/registration-file.ts';
import type { Store } from './store/store.ts';

/** How a relay is set up. */
export interface RelayConfig {
  readonly address: SocketAddress;
  readonly tls: TlsFiles | null;
  /** What tokens and URLs are sealed with; the same on all nodes. At least 32 bytes. */
  readonly secret: string;
  /** `memory`, `file:///PATH`, or `redis://…`, which several nodes share. */
  readonly store: string;
  /** Keeps the file of a `file:` store for one relay. Without it a second relay is not noticed, which is warned of. */
  readonly fileLock?: FileLock | null;
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
  const revocations = await Revocations.open(config.revokedFile, '--revoked-file');
  const audit = await openAudit(config);
  let store: Store | null = null;
  try {
    store = await openStore(config.store, config.log, config.fileLock);
    const relay = new Relay(config, revocations, store, audit);
    const url = await relay.listen();
    return {
      url,
      close: (reason = 'the relay is shutting down') => relay.close(reason),
      reload: () => relay.reload(),
    };
  } catch (error) {
    await store?.close();
    await audit?.close();
    throw error;
  }
}

/** Owns everything that a node has. */
class Relay {
  readonly #config: RelayConfig;
  readonly #revocations: Revocations;
  readonly #store: Store;
  readonly #urls: NodeUrls;
  readonly #records: RelayRecords;
  readonly #rendezvous: Rendezvous;
  readonly #listener: RelayListener;
  #closing: Promise<void> | null = null;

  constructor(config: RelayConfig, revocations: Revocations, store: Store, audit: AuditLog | null) {
    const { log, now = Date.now } = config;
    const seal = new Seal(config.secret);
    const tickets = new Tickets(seal, revocations, now);
    const urls = new NodeUrls(config);
    const nodeId = randomUUID();
    const metrics = new RelayMetrics(() => ({
      ...this.#rendezvous.counts,
      leases: this.#rendezvous.leases.count,
      storeAvailable: store.available,
    }));
    this.#config = config;
    this.#revocations = revocations;
    this.#store = store;
    this.#urls = urls;
    this.#records = new RelayRecords(metrics, log, audit);
    const node = () => ({ id: nodeId, url: urls.node });
    this.#rendezvous = new Rendezvous({ store, node, records: this.#records, log });
    const registry = new Registry({
      store,
      tickets,
      publicUrl: () => urls.public,
      superseded: (...registration) => this.#rendezvous.supersede(...registration),
    });
    const tokens = new AccessTokens(seal, revocations, now);
    const budget = new RequestBudget(() => performance.now());
    const upgrades = new Upgrades(tickets, this.#rendezvous, store);
    this.#listener = new RelayListener({
      address: config.address,
      tls: config.tls,
      basePaths: urls.basePaths,
      servesMetrics: config.metrics,
      calls: new Calls({ tokens, registry, budget, records: this.#records }),
      records: this.#records,
      log,
      isReady: () => store.available,
      admit: (...request) => upgrades.admit(...request),
      ...connectionLimits(config.maxConnections ?? DEFAULT_MAX_CONNECTIONS),
    });
  }

  /** Opens the listener and returns the URL that leads to it. */
  async listen(): Promise<string> {
    const port = await this.#listener.listen();
    this.#urls.listensOn(port);
    const url = this.#urls.http;
    this.#config.log.info('the relay is up', { host: this.#config.address.host, port, url });
    return url;
  }

  close(reason: string): Promise<void> {
    this.#closing ??= this.#shutDown(reason);
    return this.#closing;
  }

  /** What is wrong is logged, and the relay goes on with what it has. */
  async reload(): Promise<void> {
    const { log } = this.#config;
    let failures = 0;
    const complain = (error: Error) => {
      failures++;
      log.error('what was read before stays in use', { reason: error.message });
    };
    await this.#listener.reload().catch(complain);
    await this.#revocations.reload().catch(complain);
    await this.#records.reopen().catch(complain);
    this.#rendezvous.closeRevoked((tokenId) => this.#revocations.has(tokenId));
    if (failures === 0) log.info('files were read again');
  }

  async #shutDown(reason: string): Promise<void> {
    this.#listener.drain();
    await this.#rendezvous.drain(reason);
    await this.#listener.close();
    await this.#store.close();
    await this.#records.close();
  }
}

function connectionLimits(wanted: number) {
  const allowed = (descriptorLimit() ?? Number.POSITIVE_INFINITY) - RESERVED_DESCRIPTORS;
  const maxSockets = Math.max(2, Math.min(wanted + SLOTS_FOR_NEW_CLIENTS, allowed));
  const maxConnections = Math.min(wanted, Math.max(1, maxSockets - SLOTS_FOR_NEW_CLIENTS));
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
