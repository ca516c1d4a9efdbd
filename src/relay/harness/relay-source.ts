import { sleep } from '../../base/abort.ts';
import { Backoff, lengtheningJitter } from '../../base/backoff.ts';
import type { TransportSource } from '../../client/client-core.ts';
import { ClientError } from '../../client/errors.ts';
import { type TlsOptions, UpgradeRefusedError } from '../../transport/open-websocket.ts';
import type { Transport } from '../../transport/transport.ts';
import { RelayError } from '../errors.ts';
import {
  BUNDLE_TOTAL_TIMEOUT_MS,
  HARNESS_BACKOFF_MAX_MS,
  HARNESS_BACKOFF_MIN_MS,
  MAX_BUNDLE_RETRIES,
} from '../limits.ts';
import { createIdentity, type Identity } from '../noise/identity.ts';
import { openRendezvous } from '../outbound/rendezvous.ts';
import type { OutboundOptions } from '../outbound/tunnel.ts';
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

/** Which environment to reach, and as whom. */
export interface RelayOptions {
  /** Base URL of the registry. Over plain `http:` the token can be read on the way. */
  readonly registryUrl: string;
  readonly environmentId: string;
  /** What the registry is shown: a bearer token, or whatever it asks for. */
  readonly auth: string | RegistryAuth;
  /** Sent beside a bearer token as `chatgpt-account-id`. */
  readonly accountId?: string | null;
  /** How the registry and the rendezvous are trusted. */
  readonly tls?: TlsOptions;
  /** Where proxies are looked up. Default: this process's environment. */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

/**
 * Transports to the executor of an environment, for `ExecServerClient.connect`. Each is encrypted from end to end; one to an executor
 * of this kind also survives the loss of its connection to the rendezvous.
 */
export class RelaySource implements TransportSource {
  readonly resumable = true;
  readonly #environmentId: string;
  readonly #registry: RegistryClient;
  readonly #outbound: OutboundOptions;
  #identity: Identity | null = null;

  /** Throws ClientError for options that make no sense. */
  constructor(options: RelayOptions) {
    const { environmentId, auth, accountId: chatgptAccountId = null, tls, env = process.env } = options;
    this.#environmentId = environmentId;
    this.#outbound = { tls, env };
    try {
      this.#registry = new RegistryClient({
        url: parseRegistryUrl(options.registryUrl, { allowPlain: true }),
        environmentId: checkedEnvironmentId(environmentId),
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

  /** A URL that is refused with 401 was too old: another one is asked for, once. */
  async #open(signal: AbortSignal): Promise<Transport> {
    const bundle = await this.#askForBundle(signal);
    try {
      return await this.#connect(bundle, signal);
    } catch (error) {
      if (!(error instanceof UpgradeRefusedError) || error.status !== 401) throw error;
      return this.#connect(await this.#askForBundle(signal), signal);
    }
  }

  /** Asks again for as long as what is in the way may pass, but not for long: somebody waits. */
  async #askForBundle(signal: AbortSignal): Promise<Bundle> {
    const limited = AbortSignal.any([signal, AbortSignal.timeout(BUNDLE_TOTAL_TIMEOUT_MS)]);
    const backoff = newBackoff();
    let last: unknown;
    for (let retries = 0; ; retries++) {
      try {
        return await this.#bundle(limited);
      } catch (error) {
        if (limited.aborted && !signal.aborted) throw last ?? error;
        if (!isPassing(error) || retries === MAX_BUNDLE_RETRIES) throw error;
        last = error;
        await sleep(backoff.next(), limited);
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

  /** Made with the first connection: it takes a while. */
  #ownIdentity(): Identity {
    this.#identity ??= createIdentity();
    return this.#identity;
  }
}

function newBackoff(): Backoff {
  return new Backoff(HARNESS_BACKOFF_MIN_MS, HARNESS_BACKOFF_MAX_MS, lengtheningJitter);
}

function isPassing(error: unknown): boolean {
  return error instanceof RegistryError && error.retryable;
}

/** Everything else than a registry's refusal and a broken protocol may be better with the next bundle. */
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
  const message = `the rendezvous cannot be reached: ${(error as Error).message}`;
  return new ClientError('connectFailed', message, { cause: error, retryable: true });
}

function hintFor({ status, code }: RegistryError): string | null {
  if (status === 401 || status === 403) return 'the token is wrong, expired or not for this environment';
  if (status === 404) return 'check the id of the environment and the address of the registry';
  return code === 'environment_offline' ? 'its executor is not connected; check that it runs' : null;
}
