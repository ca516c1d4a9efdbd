import { sleep as sleepFor } from '../../base/abort.ts';
import { Backoff, lengtheningJitter } from '../../base/backoff.ts';
import { TimeLimit } from '../../base/time-limit.ts';
import type { Logger } from '../../observability/log.ts';
import { UpgradeRefusedError } from '../../transport/open-websocket.ts';
import { CloseCode, type CloseReason, type Transport } from '../../transport/transport.ts';
import { connectWebSocket } from '../../transport/websocket.ts';
import {
  DIRECT_BACKOFF_MAX_MS,
  DIRECT_BACKOFF_MIN_MS,
  PEER_SILENCE_MS,
  PING_INTERVAL_MS,
  SOCKET_CONNECT_TIMEOUT_MS,
  STABLE_CONNECTION_MS,
} from '../limits.ts';
import { type OutboundOptions, openTunnel } from '../outbound/proxy.ts';
import { withoutQuery } from '../outbound/rendezvous.ts';
import type { AuthHeaders } from '../registry-auth.ts';
import { checkedEnvironmentId, parseRegistryUrl, RegistryError } from '../registry-client.ts';
import { secretsOf, secretsOfUrl, withoutSecrets } from '../secrets.ts';
import { awsCredentials, awsRegion } from './aws-credentials.ts';
import { registerDirect, type Sign } from './direct-registry.ts';
import { signRequest } from './sigv4.ts';

/** How requests are signed. */
export interface AwsSigning {
  readonly profile: string | null;
  /** Null takes the region of the environment or the profile. */
  readonly region: string | null;
  /** Null is API Gateway. */
  readonly service: string | null;
}

/** Registry, signatures and callback of an executor. */
export interface DirectExecutorOptions extends Partial<OutboundOptions> {
  /** Base URL of the registry: `https:`, or `http:` on this machine. */
  readonly registryUrl: string;
  readonly environmentId: string;
  readonly aws: AwsSigning;
  /** Name in log lines. */
  readonly name?: string;
  readonly log: Logger;
  /** Called after each connection to the client. */
  onConnected?(): void;
  /** Largest message that the client may send. */
  readonly maxMessageBytes: number;
  /** Serves the client at the other end. Resolves when the connection is closed. */
  accept(transport: Transport): Promise<CloseReason>;
}

/**
 * Registers an executor and serves the client that accepts its websocket: JSON-RPC without a relay or encryption of its own, one client
 * at a time. It reconnects to the same URL when the connection is lost.
 */
export class DirectExecutor {
  /** Resolves after {@link close}. Rejects with RegistryError or CredentialError when registry or client refuse permanently. */
  readonly ended: Promise<void>;
  readonly #options: DirectExecutorOptions;
  readonly #outbound: OutboundOptions;
  readonly #registryUrl: URL;
  readonly #environmentId: string;
  readonly #sign: Sign;
  readonly #stop = new AbortController();
  readonly #sleep: typeof sleepFor;
  readonly #backoff = new Backoff(DIRECT_BACKOFF_MIN_MS, DIRECT_BACKOFF_MAX_MS, lengtheningJitter);
  #transport: Transport | null = null;
  #draining = false;

  /**
   * Throws TypeError for invalid options and CredentialError without a region. Tests pass a `sleep` that records the delays between
   * attempts.
   */
  constructor(
    options: DirectExecutorOptions,
    { sleep = sleepFor }: { readonly sleep?: typeof sleepFor } = {},
  ) {
    const { env = process.env, tls, aws } = options;
    this.#options = options;
    this.#sleep = sleep;
    this.#outbound = { env, tls };
    this.#registryUrl = parseRegistryUrl(options.registryUrl);
    this.#environmentId = checkedEnvironmentId(options.environmentId);
    this.#sign = signer(aws, env);
    this.ended = this.#run().finally(() => this.close());
  }

  /** Does not connect again. */
  drain(): void {
    this.#draining = true;
  }

  /** Closes the connection. */
  close(): void {
    this.#stop.abort();
    this.#transport?.close({ code: CloseCode.goingAway, reason: 'the executor is shutting down' });
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    try {
      let url = await this.#register();
      while (!signal.aborted && !this.#draining) {
        if (await this.#serve(url)) url = await this.#register();
        await this.#sleep(this.#backoff.next(), signal);
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  async #register(): Promise<URL> {
    const { log, environmentId, name = null } = this.#options;
    const registry = {
      url: this.#registryUrl,
      environmentId: this.#environmentId,
      sign: this.#sign,
      ...this.#outbound,
    };
    const url = await registerDirect(registry, this.#stop.signal);
    log.info('registered', { environmentId, name, client: withoutQuery(url.href) });
    return url;
  }

  /** Connects and serves until the connection is lost. Returns true when the executor must register again. */
  async #serve(url: URL): Promise<boolean> {
    const { log, accept } = this.#options;
    const client = withoutQuery(url.href);
    let transport: Transport;
    let secrets: string[];
    try {
      const headers = await this.#sign({ method: 'GET', url }, this.#stop.signal);
      secrets = [...secretsOf(headers), ...secretsOfUrl(url.href)];
      transport = await this.#connect(url, headers);
    } catch (error) {
      if (this.#stop.signal.aborted) throw error;
      const status = error instanceof UpgradeRefusedError ? error.status : null;
      const reason = (error as Error).message;
      if (status !== null && isFinal(status)) {
        throw new RegistryError(`the client at ${client} refused the connection: ${reason}`, {
          status,
          retryable: false,
          cause: error,
        });
      }
      log.warn('cannot reach the client', { client, reason });
      return status === REGISTER_AGAIN;
    }
    const connectedAt = performance.now();
    this.#transport = transport;
    const served = accept(transport);
    if (this.#stop.signal.aborted) this.close();
    log.info('connected to the client', { client });
    this.#options.onConnected?.();
    const { code, reason: given } = await served;
    const reason = withoutSecrets(given, secrets);
    this.#transport = null;
    if (performance.now() - connectedAt >= STABLE_CONNECTION_MS) this.#backoff.reset();
    const isExpected = this.#draining || this.#stop.signal.aborted;
    if (!isExpected) log.warn('lost the connection to the client', { client, code, reason });
    return false;
  }

  #connect(url: URL, headers: AuthHeaders): Promise<Transport> {
    return TimeLimit.run(SOCKET_CONNECT_TIMEOUT_MS, this.#stop.signal, async (signal) => {
      const connection = await openTunnel(url, this.#outbound, signal);
      const { tls } = this.#outbound;
      const connecting = connectWebSocket(url.href, {
        headers,
        signal,
        maxMessageBytes: this.#options.maxMessageBytes,
        pingIntervalMs: PING_INTERVAL_MS,
        peerSilenceTimeoutMs: PEER_SILENCE_MS,
        ...(connection !== undefined && { connection }),
        ...(tls !== undefined && { tls }),
      });
      // A failed upgrade leaves the tunnel without an owner.
      connecting.catch(() => connection?.destroy());
      return connecting;
    });
  }
}

/** The status that makes an executor register again. */
const REGISTER_AGAIN = 409;

/** Whether an upgrade status is final: a client error, except 408, 409 and 429, as in the reference. */
function isFinal(status: number): boolean {
  return status >= 400 && status <= 499 && ![408, REGISTER_AGAIN, 429].includes(status);
}

/** The keys are fetched for each signature, because they may change. */
function signer({ profile, region: given, service }: AwsSigning, env: OutboundOptions['env']): Sign {
  const scope = { region: awsRegion(given, profile, env), service: checkedService(service) };
  return async (request, signal) => {
    const keys = await awsCredentials({ profile, region: scope.region, env }, signal);
    return signRequest(request, keys, scope, new Date());
  };
}

/** The service name of API Gateway. */
const DEFAULT_SERVICE = 'execute-api';

function checkedService(given: string | null): string {
  const service = given === null ? DEFAULT_SERVICE : given.trim();
  if (service === '') throw new TypeError('the AWS service is empty');
  return service;
}
