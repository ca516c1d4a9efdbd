import { sleep as sleepFor } from '../../base/abort.ts';
import { Backoff, lengtheningJitter } from '../../base/backoff.ts';
import { TimeLimit } from '../../base/time-limit.ts';
import { ExecServerClient } from '../../client/client.ts';
import type { OptionNames } from '../../client/connection/option-checks.ts';
import type { SessionOptions, TransportSource } from '../../client/connection/session-options.ts';
import { ClientError } from '../../client/errors.ts';
import { UpgradeRefusedError } from '../../transport/open-websocket.ts';
import type { TlsOptions } from '../../transport/tls-options.ts';
import type { Transport } from '../../transport/transport.ts';
import { RelayError } from '../errors.ts';
import {
  BUNDLE_TOTAL_TIMEOUT_MS,
  HARNESS_BACKOFF_MAX_MS,
  HARNESS_BACKOFF_MIN_MS,
  HARNESS_CONNECT_TIMEOUT_MS,
  MAX_BUNDLE_RETRIES,
} from '../limits.ts';
import { createIdentity, type Identity } from '../noise/identity.ts';
import type { OutboundOptions } from '../outbound/proxy.ts';
import { openRendezvous } from '../outbound/rendezvous.ts';
import { bearerAuth, type RegistryAuth } from '../registry-auth.ts';
import {
  type Bundle,
  checkedEnvironmentId,
  parseRegistryUrl,
  RegistryClient,
  RegistryError,
} from '../registry-client.ts';
import { HarnessLink } from '../stream/harness-link.ts';
import { PipeReconnector } from './pipe-reconnector.ts';

/** The environment to reach and the credentials for its registry. */
export interface RelayOptions {
  /** Base URL of the registry. Plain `http:` sends the token unencrypted. */
  readonly registryUrl: string;
  readonly environmentId: string;
  /** A bearer token, or a provider of request headers. */
  readonly auth: string | RegistryAuth;
  /** Sent with a bearer token as `chatgpt-account-id`. */
  readonly accountId?: string | null;
  /** TLS options for the registry and the rendezvous. */
  readonly tls?: TlsOptions;
  /** Environment variables that set proxies. Default: `process.env`. */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

/** Options of the environment and of the session. */
export interface RemoteOptions extends RelayOptions, SessionOptions {}

/** Opens a session with the executor of an environment, through a relay that cannot read it. Rejects with ClientError. */
export function connectRemote(options: RemoteOptions): Promise<ExecServerClient> {
  const source = new RelaySource(options);
  const isOfSession = ([name]: readonly [string, unknown]) => !Object.hasOwn(RELAY_OPTIONS, name);
  const session: SessionOptions = Object.fromEntries(Object.entries(options).filter(isOfSession));
  return ExecServerClient.connect({
    connectTimeoutMs: HARNESS_CONNECT_TIMEOUT_MS,
    ...session,
    open: (signal) => source.open(signal),
    resumable: true,
  });
}

const RELAY_OPTIONS: OptionNames<RelayOptions> = {
  registryUrl: true,
  environmentId: true,
  auth: true,
  accountId: true,
  tls: true,
  env: true,
};

/**
 * Opens transports to the executor of an environment, for `ExecServerClient.connect`. Each is encrypted end to end. A transport to an
 * executor that supports acks also survives the loss of its connection to the rendezvous.
 */
export class RelaySource implements TransportSource {
  readonly resumable = true;
  readonly #environmentId: string;
  readonly #registry: RegistryClient;
  readonly #outbound: OutboundOptions;
  readonly #sleep: typeof sleepFor;
  #identity: Identity | null = null;

  /** Throws ClientError for invalid options. Tests pass a `sleep` that records the delays between attempts. */
  constructor(options: RelayOptions, { sleep = sleepFor }: { readonly sleep?: typeof sleepFor } = {}) {
    const { environmentId, auth, accountId: chatgptAccountId = null, tls, env = process.env } = options;
    this.#outbound = { tls, env };
    this.#sleep = sleep;
    try {
      this.#environmentId = checkedEnvironmentId(environmentId);
      this.#registry = new RegistryClient({
        url: parseRegistryUrl(options.registryUrl, { allowPlain: true }),
        environmentId: this.#environmentId,
        auth: typeof auth === 'string' ? bearerAuth(auth, { chatgptAccountId }) : auth,
        ...this.#outbound,
      });
    } catch (error) {
      throw new ClientError('config', (error as Error).message, { cause: error });
    }
  }

  async open(signal: AbortSignal): Promise<Transport> {
    try {
      return await this.#open(signal);
    } catch (error) {
      throw signal.aborted ? error : asClientError(error);
    }
  }

  /** Retries once with a new URL when the rendezvous answers 401, which means that the URL has expired. */
  async #open(signal: AbortSignal): Promise<Transport> {
    const bundle = await this.#askForBundle(signal);
    try {
      return await this.#connect(bundle, signal);
    } catch (error) {
      if (!(error instanceof UpgradeRefusedError) || error.status !== 401) throw error;
      return this.#connect(await this.#askForBundle(signal), signal);
    }
  }

  /** Retries temporary failures for a limited time, because the caller waits. */
  #askForBundle(signal: AbortSignal): Promise<Bundle> {
    return TimeLimit.run(BUNDLE_TOTAL_TIMEOUT_MS, signal, (limited) => this.#retryBundle(limited, signal));
  }

  /** `limited` aborts with `signal` or when the time is up. */
  async #retryBundle(limited: AbortSignal, signal: AbortSignal): Promise<Bundle> {
    const backoff = newBackoff();
    let last: unknown;
    for (let retries = 0; ; retries++) {
      try {
        return await this.#bundle(limited);
      } catch (error) {
        if (limited.aborted && !signal.aborted) throw last ?? error;
        if (!isTemporary(error) || retries === MAX_BUNDLE_RETRIES) throw error;
        last = error;
        await this.#sleep(backoff.next(), limited);
        if (limited.aborted) throw error;
      }
    }
  }

  #bundle(signal: AbortSignal): Promise<Bundle> {
    return this.#registry.connect(this.#ownIdentity().publicKey, signal);
  }

  async #connect(bundle: Bundle, signal: AbortSignal): Promise<Transport> {
    const { executorKey, registrationId, authorization } = bundle;
    const opener = {
      sleep: this.#sleep,
      bundle: (ended: AbortSignal) => this.#bundle(ended),
      openPipe: (next: Bundle, ended: AbortSignal) => this.#openPipe(next, ended),
    };
    const reconnector = new PipeReconnector(opener, executorKey, newBackoff());
    let link: HarnessLink | null = null;
    link = await HarnessLink.connect(await this.#openPipe(bundle, signal), {
      identity: this.#ownIdentity(),
      executorKey,
      environmentId: this.#environmentId,
      registrationId,
      authorization,
      signal,
      pipeLost: () => {
        if (link !== null) void reconnector.pipeLost(link);
      },
      ended: () => reconnector.end(),
    });
    return link.transport;
  }

  #openPipe({ url }: Bundle, signal: AbortSignal) {
    return openRendezvous(url, { ...this.#outbound, text: 'refuse' }, signal);
  }

  /** Creates the identity with the first connection, because that takes about 40 ms. */
  #ownIdentity(): Identity {
    this.#identity ??= createIdentity();
    return this.#identity;
  }
}

function newBackoff(): Backoff {
  return new Backoff(HARNESS_BACKOFF_MIN_MS, HARNESS_BACKOFF_MAX_MS, lengtheningJitter);
}

function isTemporary(error: unknown): boolean {
  return error instanceof RegistryError && error.retryable;
}

/** Failures other than a refusal of the registry or a protocol error are retryable with the next bundle. */
function asClientError(error: unknown): ClientError {
  if (error instanceof ClientError) return error;
  if (error instanceof RegistryError) {
    const { status, code, retryable } = error;
    const hint = hintFor(error);
    return new ClientError('connectFailed', error.message, {
      cause: error,
      data: { status, code },
      retryable,
      ...(hint !== null && { hint }),
    });
  }
  if (error instanceof RelayError) {
    const retryable = error.kind === 'refused' || error.kind === 'lost' || error.kind === 'timeout';
    return new ClientError('connectFailed', error.message, { cause: error, retryable });
  }
  const message = `cannot reach the rendezvous: ${(error as Error).message}`;
  return new ClientError('connectFailed', message, { cause: error, retryable: true });
}

function hintFor({ status, code }: RegistryError): string | null {
  if (status === 401) return 'check the token: it is wrong, expired or revoked';
  if (status === 403) return 'use a harness token of this environment';
  if (status === 404) return 'check the environment id and the registry URL';
  return code === 'environment_offline'
    ? 'check that the executor runs: it is not connected to the relay'
    : null;
}
