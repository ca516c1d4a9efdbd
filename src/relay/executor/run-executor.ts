import { randomBytes } from 'node:crypto';
import { sleep } from '../../base/abort.ts';
import { Backoff, shorteningJitter } from '../../base/backoff.ts';
import type { Logger } from '../../observability/log.ts';
import { UpgradeRefusedError } from '../../transport/open-websocket.ts';
import { CloseCode, type CloseReason, type Transport } from '../../transport/transport.ts';
import { EXECUTOR_BACKOFF_MAX_MS, EXECUTOR_BACKOFF_MIN_MS } from '../limits.ts';
import { createIdentity } from '../noise/identity.ts';
import { nameOf, openRendezvous } from '../outbound/rendezvous.ts';
import type { OutboundOptions } from '../outbound/tunnel.ts';
import type { RegistryAuth } from '../registry-auth.ts';
import {
  checkedEnvironmentId,
  parseRegistryUrl,
  type Registration,
  RegistryClient,
  RegistryError,
} from '../registry-client.ts';
import { ExecutorLink, type RelayPeer } from '../stream/executor-link.ts';
import { rejectStream } from '../stream/reject-stream.ts';

/** Who an executor is, where it registers, and what it does with harnesses. */
export interface ExecutorOptions extends Partial<OutboundOptions> {
  /** Base URL of the registry: `https:`, or `http:` on this machine. */
  readonly registryUrl: string;
  readonly environmentId: string;
  readonly auth: RegistryAuth;
  /** What logs call it. */
  readonly name?: string;
  readonly log: Logger;
  /** Takes the stream of a harness that has been let in. */
  accept(transport: Transport, peer: RelayPeer): void;
}

/**
 * An executor that is registered and stays connected to its rendezvous. It has one identity for its whole life, so that a registry
 * can tell its return from another executor that takes its place.
 */
export class RunningExecutor {
  /** Resolves after {@link close}; rejects with RegistryError when the registry says no in a way that does not pass. */
  readonly ended: Promise<void>;
  readonly #options: ExecutorOptions;
  readonly #outbound: OutboundOptions;
  readonly #registry: RegistryClient;
  readonly #identity = createIdentity();
  readonly #link: ExecutorLink;
  readonly #stop = new AbortController();
  readonly #backoff = new Backoff(EXECUTOR_BACKOFF_MIN_MS, EXECUTOR_BACKOFF_MAX_MS, shorteningJitter);
  #pipeLost: (reason?: CloseReason) => void = () => {};
  #draining = false;

  /** Throws TypeError for options that make no sense. */
  constructor(options: ExecutorOptions) {
    this.#options = options;
    const { environmentId, auth, env = process.env, tls } = options;
    this.#outbound = { env, tls };
    const url = parseRegistryUrl(options.registryUrl);
    this.#registry = new RegistryClient({
      url,
      auth,
      environmentId: checkedEnvironmentId(environmentId),
      ...this.#outbound,
    });
    this.#link = new ExecutorLink({
      identity: this.#identity,
      environmentId,
      validate: async (claim, signal) => !this.#draining && this.#registry.validate(claim, signal),
      accept: (transport, peer) => {
        if (this.#draining) rejectStream(transport, 'the executor is shutting down');
        else options.accept(transport, peer);
      },
      pipeLost: (reason) => this.#pipeLost(reason),
    });
    this.ended = this.#run().finally(() => this.close());
  }

  /** Lets no further harness in. */
  drain(): void {
    this.#draining = true;
  }

  /** Ends every stream and the connection. */
  close(): void {
    this.#stop.abort();
    this.#link.close({ code: CloseCode.goingAway, reason: 'the executor is shutting down' });
    this.#pipeLost();
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    let registration = await this.#register();
    while (registration !== null) {
      const refused = await this.#serve(registration);
      if (signal.aborted) return;
      // The URL is good no more: a new one is asked for at once, and used as soon as any other.
      if (refused) registration = await this.#register();
      await sleep(this.#backoff.next(), signal);
    }
  }

  /** Registers, and tries again for as long as what is in the way may pass. Null once the executor is closed. */
  async #register(): Promise<Registration | null> {
    const { log, environmentId, name = null } = this.#options;
    const { signal } = this.#stop;
    while (!signal.aborted) {
      try {
        const registration = await this.#registry.register(this.#identity.publicKey, signal);
        log.info('registered', { environmentId, name, rendezvous: nameOf(registration.url) });
        return registration;
      } catch (error) {
        if (signal.aborted) return null;
        if (!(error instanceof RegistryError) || !error.retryable) throw error;
        const pauseMs = this.#backoff.next();
        log.warn('the registration failed; it is tried again', {
          reason: error.message,
          pauseMs: Math.round(pauseMs),
        });
        await sleep(pauseMs, signal);
      }
    }
    return null;
  }

  /** Serves until the connection is lost, or not at all. True when the rendezvous refuses the URL. */
  async #serve({ url, registrationId }: Registration): Promise<boolean> {
    const { log } = this.#options;
    const { signal } = this.#stop;
    const headers = { 'x-request-id': `req_${randomBytes(16).toString('hex')}` };
    try {
      const pipe = await openRendezvous(url, { ...this.#outbound, headers, text: 'ignore' }, signal);
      const lost = new Promise<CloseReason | undefined>((resolve) => {
        this.#pipeLost = resolve;
      });
      // A link that is closed meanwhile closes the pipe, and tells nobody.
      this.#link.attach(pipe, registrationId);
      if (signal.aborted) return false;
      this.#backoff.reset();
      log.info('connected to the rendezvous', { rendezvous: nameOf(url) });
      const { code = null, reason = '' } = (await lost) ?? {};
      if (!signal.aborted) {
        log.warn('the connection to the rendezvous is lost', { rendezvous: nameOf(url), code, reason });
      }
      return false;
    } catch (error) {
      if (signal.aborted) return false;
      log.warn('the rendezvous cannot be reached', {
        rendezvous: nameOf(url),
        reason: (error as Error).message,
      });
      return error instanceof UpgradeRefusedError && isRefusal(error.status);
    }
  }
}

/** Whether a status is about the URL. 408 and 429 are about the moment. */
function isRefusal(status: number): boolean {
  return status >= 400 && status <= 499 && status !== 408 && status !== 429;
}
