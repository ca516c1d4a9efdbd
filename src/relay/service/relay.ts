import { randomUUID } from 'node:crypto';
import { AuditLog } from '../../audit/audit-log.ts';
import { descriptorLimit } from '../../listener/connection-slots.ts';
import { RESERVED_DESCRIPTORS, SLOTS_FOR_NEW_CLIENTS } from '../../listener/limits.ts';
import type { SocketAddress } from '../../listener/listen-url.ts';
import { MetricsListener } from '../../listener/metrics-listener.ts';
import type { MetricsToken } from '../../listener/metrics-token.ts';
import { Revocations } from '../../listener/revocations.ts';
import { StartError } from '../../listener/start-error.ts';
import type { TlsFiles } from '../../listener/tls.ts';
import type { Logger } from '../../observability/log.ts';
import { AccessTokens } from './access/access-tokens.ts';
import { Seal } from './access/sealed-text.ts';
import { Tickets } from './access/tickets.ts';
import { Calls, RequestBudget } from './http/calls.ts';
import { RelayListener } from './http/relay-listener.ts';
import { Tenants } from './http/tenants.ts';
import { Upgrades } from './http/upgrades.ts';
import { DEFAULT_MAX_CONNECTIONS, MAX_CONNECTIONS_PER_ADDRESS } from './limits.ts';
import { NodeUrls } from './node-urls.ts';
import { RelayMetrics } from './records/relay-metrics.ts';
import { RelayRecords } from './records/relay-records.ts';
import { Registry } from './registry/registry.ts';
import { Rendezvous } from './rendezvous/rendezvous.ts';
import { openStore } from './store/open-store.ts';
import type { FileLock } from './store/registration-file.ts';
import type { Store } from './store/store.ts';

/** Configuration of a relay node. */
export interface RelayConfig {
  readonly address: SocketAddress;
  /** A listening socket for the address that this process has inherited, as from systemd; null when the relay binds it. */
  readonly descriptor?: number | null;
  readonly tls: TlsFiles | null;
  /** Key of the seals of tokens and URLs, the same on all nodes. At least 32 bytes. */
  readonly secret: string;
  /** `memory`, `file:///PATH`, or `redis://…`, which several nodes share. */
  readonly store: string;
  /** Locks the file of a `file:` store. Without it the relay cannot detect a second relay, and logs a warning. */
  readonly fileLock?: FileLock | null;
  /** HTTP URL of any node, for clients. Null uses the address. */
  readonly publicUrl: string | null;
  /** HTTP URL of this node, for harnesses. Null uses the public URL. */
  readonly nodeUrl: string | null;
  /** File with the ids of revoked tokens. */
  readonly revokedFile: string | null;
  readonly auditLog: string | null;
  readonly metrics: boolean;
  /** Where metrics and health probes are served besides the listener of clients; null for nowhere. */
  readonly metricsAddress?: SocketAddress | null;
  /** The token that `metricsAddress` needs for `/metrics`; null when it needs none. */
  readonly metricsToken?: MetricsToken | null;
  readonly maxConnections?: number;
  readonly log: Logger;
  /** Wall clock in milliseconds, for expiry. */
  readonly now?: () => number;
}

/** A running relay. */
export interface RunningRelay {
  /** URL for clients: the `--remote` of executors. */
  readonly url: string;
  /** The URL of `/metrics` on a listener of its own; null without one. */
  readonly metricsUrl: string | null;
  /** Closes all connections and shuts down. */
  close(reason?: string): Promise<void>;
  /** Reloads certificates and revoked tokens, and reopens the audit log. */
  reload(): Promise<void>;
}

/** Starts a relay node. Resolves once clients can connect. Throws StartError. */
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
      metricsUrl: relay.metricsUrl,
      close: (reason = 'the relay is shutting down') => relay.close(reason),
      reload: () => relay.reload(),
    };
  } catch (error) {
    await store?.close();
    await audit?.close();
    throw error;
  }
}

/** Owns the parts of a node. */
class Relay {
  readonly #config: RelayConfig;
  readonly #revocations: Revocations;
  readonly #store: Store;
  readonly #urls: NodeUrls;
  readonly #records: RelayRecords;
  readonly #rendezvous: Rendezvous;
  readonly #listener: RelayListener;
  readonly #metricsListener: MetricsListener | null;
  #closing: Promise<void> | null = null;
  /** The URL of the metrics listener; null without one. */
  metricsUrl: string | null = null;

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
    const limits = connectionLimits(config.maxConnections ?? DEFAULT_MAX_CONNECTIONS);
    const tenants = new Tenants(limits.maxConnections);
    const upgrades = new Upgrades({ tickets, rendezvous: this.#rendezvous, store, budget, tenants });
    this.#listener = new RelayListener({
      address: config.address,
      descriptor: config.descriptor ?? null,
      tls: config.tls,
      basePaths: urls.basePaths,
      servesMetrics: config.metrics,
      calls: new Calls({ tokens, registry, budget, records: this.#records }),
      records: this.#records,
      log,
      isReady: () => store.available,
      admit: (...request) => upgrades.admit(...request),
      ...limits,
    });
    const { metricsAddress = null, metricsToken: token = null } = config;
    this.#metricsListener =
      metricsAddress &&
      new MetricsListener({
        address: metricsAddress,
        token,
        log,
        isReady: () => this.#closing === null && store.available,
        scrape: () => metrics.text(),
      });
  }

  /** Opens the listeners and returns the URL for clients. */
  async listen(): Promise<string> {
    this.metricsUrl = (await this.#metricsListener?.listen()) ?? null;
    const port = await this.#listener.listen();
    this.#urls.listensOn(port);
    const url = this.#urls.http;
    this.#config.log.info('relay listening', { host: this.#config.address.host, port, url });
    return url;
  }

  close(reason: string): Promise<void> {
    this.#closing ??= this.#shutDown(reason);
    return this.#closing;
  }

  /** Logs failures and keeps the previous state for them. */
  async reload(): Promise<void> {
    const { log } = this.#config;
    let failures = 0;
    const logFailure = (error: Error) => {
      failures++;
      log.error('reload failed, keeping the previous state', { reason: error.message });
    };
    await this.#listener.reload().catch(logFailure);
    await this.#revocations.reload().catch(logFailure);
    await this.#records.reopen().catch(logFailure);
    this.#rendezvous.closeRevoked((tokenId) => this.#revocations.has(tokenId));
    if (failures === 0) log.info('reloaded certificates, revoked tokens and the audit log');
  }

  async #shutDown(reason: string): Promise<void> {
    this.#listener.drain();
    await this.#rendezvous.drain(reason);
    await this.#listener.close();
    await this.#metricsListener?.close();
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
