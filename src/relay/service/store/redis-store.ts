import { randomUUID } from 'node:crypto';
import { withTimeout } from '../../../base/with-timeout.ts';
import { StartError } from '../../../listener/start-error.ts';
import type { Logger } from '../../../observability/log.ts';
import type { NoisePublicKey } from '../../noise/public-key.ts';
import {
  AUTHORIZATION_MS,
  LEASE_MS,
  MAX_SUPERSEDED_KEYS,
  REGISTRATION_MS,
  STORE_ERROR_LOG_INTERVAL_MS,
  STORE_QUEUE_COMMANDS,
  STORE_RECONNECT_MS,
  STORE_SILENCE_MS,
  STORE_TIMEOUT_MS,
} from '../limits.ts';
import { CLAIM, FIND, REGISTER, RELEASE, RENEW } from './redis-scripts.ts';
import {
  type Grant,
  hashAuthorization,
  hashKey,
  type Lease,
  type NodeAddress,
  type Presence,
  type RegisterOutcome,
  type Store,
  StoreUnavailableError,
} from './store.ts';

/** The store of a relay with several nodes. It holds registrations only: no relayed traffic passes through it. */
export class RedisStore implements Store {
  readonly #client: RedisClient;
  readonly #log: Logger;
  #onReturn: () => void = () => {};
  #loggedAtMs = Number.NEGATIVE_INFINITY;

  private constructor(client: RedisClient, log: Logger) {
    this.#client = client;
    this.#log = log;
  }

  /** Starts to connect and retries until `close`. Throws StartError for an invalid URL. */
  static async open(url: string, log: Logger): Promise<RedisStore> {
    const client = await createRedisClient(url);
    const store = new RedisStore(client, log);
    let reachable = true;
    client.on('error', (error: Error) => {
      if (reachable) log.error('cannot reach the store', { reason: error.message });
      reachable = false;
    });
    client.on('ready', () => {
      if (!reachable) log.warn('the store is reachable again');
      reachable = true;
      store.#onReturn();
    });
    const connected = client.connect().catch(() => {});
    // Waits for a reachable store, so that the first request can use it. If it is unreachable, clients retry.
    await withStoreTimeout(connected).catch(() => {});
    return store;
  }

  get available(): boolean {
    return this.#client.isReady;
  }

  onReturn(listener: () => void): void {
    this.#onReturn = listener;
  }

  async register(environmentId: string, executorKey: NoisePublicKey): Promise<RegisterOutcome> {
    const { environment, superseded, lease } = keysOf(environmentId);
    const key = JSON.stringify(executorKey.toJSON());
    const reply = await this.#run(
      REGISTER,
      [environment, superseded, lease],
      [hashKey(executorKey), key, randomUUID(), MAX_SUPERSEDED_KEYS, REGISTRATION_MS],
    );
    const [outcome, registrationId] = reply as [RegisterOutcome['outcome'], string];
    return outcome === 'superseded' ? { outcome } : { outcome, registrationId };
  }

  async claim(environmentId: string, registrationId: string, node: NodeAddress): Promise<Lease | null> {
    const { environment, lease } = keysOf(environmentId);
    const reply = await this.#run(
      CLAIM,
      [environment, lease],
      [registrationId, JSON.stringify(node), LEASE_MS, REGISTRATION_MS],
    );
    const [epoch, keyHash, key] = reply as string[];
    if (epoch === undefined || keyHash === undefined || key === undefined) return null;
    const registration = { environmentId, registrationId, executorKey: JSON.parse(key), keyHash };
    return { registration, node, epoch: Number(epoch) };
  }

  async renew({ registration, node, epoch }: Lease): Promise<boolean> {
    const { environmentId, registrationId, keyHash, executorKey } = registration;
    const { environment, lease } = keysOf(environmentId);
    const identity = [registrationId, keyHash, JSON.stringify(executorKey)];
    const reply = await this.#run(
      RENEW,
      [environment, lease],
      [epoch, JSON.stringify(node), LEASE_MS, REGISTRATION_MS, ...identity],
    );
    return reply === 1;
  }

  async release({ registration, epoch }: Lease): Promise<void> {
    await this.#run(RELEASE, [keysOf(registration.environmentId).lease], [epoch]);
  }

  async find(environmentId: string): Promise<Presence | null> {
    const { environment, lease } = keysOf(environmentId);
    const [registrationId = '', keyHash = '', key = '', node = ''] = (await this.#run(
      FIND,
      [environment, lease],
      [],
    )) as string[];
    if (registrationId === '') return null;
    return {
      registration: { environmentId, registrationId, executorKey: JSON.parse(key), keyHash },
      node: node === '' ? null : JSON.parse(node),
    };
  }

  async grant(environmentId: string, authorization: string, grant: Grant): Promise<void> {
    const { registrationId, harnessKeyHash } = grant;
    const value = JSON.stringify({ registrationId, harnessKeyHash });
    await this.#command(() =>
      this.#client.set(grantKey(environmentId, authorization), value, {
        expiration: { type: 'PX', value: AUTHORIZATION_MS },
      }),
    );
  }

  async take(environmentId: string, authorization: string): Promise<Grant | null> {
    const value = await this.#command(() => this.#client.getDel(grantKey(environmentId, authorization)));
    return value === null ? null : JSON.parse(value);
  }

  async close(): Promise<void> {
    this.#client.destroy();
  }

  #run(script: string, keys: string[], args: readonly (string | number)[]): Promise<unknown> {
    return this.#command(() => this.#client.eval(script, { keys, arguments: args.map(String) }));
  }

  /** Runs a command with a short timeout. Throws StoreUnavailableError, after which clients retry. */
  async #command<T>(run: () => Promise<T>): Promise<T> {
    if (!this.#client.isReady) throw new StoreUnavailableError('cannot reach the store');
    try {
      return await withStoreTimeout(run());
    } catch (error) {
      const reason = (error as Error).message;
      this.#logFailure(reason);
      throw new StoreUnavailableError(`the store failed: ${reason}`);
    }
  }

  /** Logs a failed command, at a limited rate. Clients do not receive the reason. A lost connection is logged separately. */
  #logFailure(reason: string): void {
    const nowMs = performance.now();
    if (!this.#client.isReady || nowMs - this.#loggedAtMs < STORE_ERROR_LOG_INTERVAL_MS) return;
    this.#loggedAtMs = nowMs;
    this.#log.error('a command of the store failed', { reason });
  }
}

type RedisClient = Awaited<ReturnType<typeof createRedisClient>>;

async function createRedisClient(url: string) {
  const { createClient } = await import('@redis/client').catch((error: NodeJS.ErrnoException) => {
    const isMissing = error.code === 'ERR_MODULE_NOT_FOUND' || error.code === 'MODULE_NOT_FOUND';
    throw new StartError(
      isMissing
        ? '--store needs the package @redis/client, which is not installed; install it beside exec-server: npm install [--global] @redis/client@6'
        : `--store: the package @redis/client cannot be loaded (${error.message.split('\n', 1)[0]})`,
    );
  });
  try {
    return createClient({
      url,
      RESP: 2,
      name: 'exec-server-relay',
      disableOfflineQueue: true,
      commandsQueueMaxLength: STORE_QUEUE_COMMANDS,
      pingInterval: STORE_SILENCE_MS / 2,
      socket: {
        connectTimeout: STORE_TIMEOUT_MS,
        socketTimeout: STORE_SILENCE_MS,
        reconnectStrategy: (retries) => Math.min(50 * 2 ** Math.min(retries, 5), STORE_RECONNECT_MS),
      },
    });
  } catch {
    // The original error text contains the password.
    throw new StartError('--store is not a redis:// or rediss:// URL');
  }
}

/** The braces keep all keys of an environment in one slot of a Redis cluster. */
function keysOf(environmentId: string) {
  const prefix = `exec-server-relay:{${environmentId}}`;
  return {
    environment: `${prefix}:registration`,
    superseded: `${prefix}:superseded`,
    lease: `${prefix}:lease`,
  };
}

function grantKey(environmentId: string, authorization: string): string {
  return `exec-server-relay:{${environmentId}}:authorization:${hashAuthorization(authorization)}`;
}

/** Rejects when the store does not answer in time. Ignores a later answer. */
function withStoreTimeout<T>(work: Promise<T>): Promise<T> {
  return withTimeout<T, never>(work, STORE_TIMEOUT_MS, {
    onTimeout: () => {
      throw new Error('no answer in time');
    },
  });
}
