import { randomBytes } from 'node:crypto';
import { sleep as sleepFor } from '../../base/abort.ts';
import { Backoff, lengtheningJitter, shorteningJitter } from '../../base/backoff.ts';
import type { Logger } from '../../observability/log.ts';
import { UpgradeRefusedError } from '../../transport/open-websocket.ts';
import { CloseCode, type CloseReason, type Transport } from '../../transport/transport.ts';
import {
  EXECUTOR_BACKOFF_MAX_MS,
  EXECUTOR_BACKOFF_MIN_MS,
  EXECUTOR_STABLE_MS,
  REGISTRATION_BACKOFF_MAX_MS,
  REGISTRATION_BACKOFF_MIN_MS,
} from '../limits.ts';
import { createIdentity } from '../noise/identity.ts';
import type { OutboundOptions } from '../outbound/proxy.ts';
import { openRendezvous, withoutQuery } from '../outbound/rendezvous.ts';
import type { RegistryAuth } from '../registry-auth.ts';
import {
  checkedEnvironmentId,
  parseRegistryUrl,
  type Registration,
  RegistryClient,
  RegistryError,
} from '../registry-client.ts';
import { secretsOfUrl, withoutSecrets } from '../secrets.ts';
import { ExecutorLink, type RelayPeer } from '../stream/executor-link.ts';
import { rejectStream } from '../stream/noise-stream.ts';

/** Identity, registry and callbacks of an executor. */
export interface ExecutorOptions extends Partial<OutboundOptions> {
  /** Base URL of the registry: `https:`, or `http:` on this machine. */
  readonly registryUrl: string;
  readonly environmentId: string;
  readonly auth: RegistryAuth;
  /** Name in log lines. */
  readonly name?: string;
  readonly log: Logger;
  /** Called after each connection to the rendezvous. */
  onConnected?(): void;
  /** Receives the stream of an authorized harness. */
  accept(transport: Transport, peer: RelayPeer): void;
}

/**
 * Registers an executor and keeps it connected to its rendezvous. It keeps one identity until it is closed. The registry therefore can
 * distinguish its return from another executor that replaces it.
 */
export class RunningExecutor {
  /** Resolves after {@link close}. Rejects with RegistryError when the registry refuses permanently. */
  readonly ended: Promise<void>;
  readonly #options: ExecutorOptions;
  readonly #outbound: OutboundOptions;
  readonly #registry: RegistryClient;
  readonly #identity = createIdentity();
  readonly #link: ExecutorLink;
  readonly #stop = new AbortController();
  readonly #sleep: typeof sleepFor;
  readonly #now: () => number;
  readonly #backoff = new Backoff(EXECUTOR_BACKOFF_MIN_MS, EXECUTOR_BACKOFF_MAX_MS, shorteningJitter);
  #pipeLost: (reason?: CloseReason) => void = () => {};
  #draining = false;

  /** Throws TypeError for invalid options. Tests pass a `sleep` that records the delays between attempts, and a clock. */
  constructor(options: ExecutorOptions, { sleep = sleepFor, now = () => performance.now() }: TestTime = {}) {
    this.#options = options;
    this.#sleep = sleep;
    this.#now = now;
    const { auth, env = process.env, tls } = options;
    const environmentId = checkedEnvironmentId(options.environmentId);
    this.#outbound = { env, tls };
    const url = parseRegistryUrl(options.registryUrl);
    this.#registry = new RegistryClient({
      url,
      auth,
      environmentId,
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

  /** Refuses new harnesses. */
  drain(): void {
    this.#draining = true;
  }

  /** Closes all streams and the connection. */
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
      // The rendezvous no longer accepts the URL. A new registration returns another one, used after the same delay.
      if (refused) registration = await this.#register();
      await this.#sleep(this.#backoff.next(), signal);
    }
  }

  /** Registers, and retries while the failure is temporary. Returns null once the executor is closed. */
  async #register(): Promise<Registration | null> {
    const { log, environmentId, name = null } = this.#options;
    const { signal } = this.#stop;
    const conflicts = new Backoff(
      REGISTRATION_BACKOFF_MIN_MS,
      REGISTRATION_BACKOFF_MAX_MS,
      lengtheningJitter,
    );
    while (!signal.aborted) {
      try {
        const registration = await this.#registry.register(this.#identity.publicKey, signal);
        log.info('registered', { environmentId, name, rendezvous: withoutQuery(registration.url) });
        return registration;
      } catch (error) {
        if (signal.aborted) return null;
        if (!(error instanceof RegistryError) || !error.retryable) throw error;
        const delayMs = (isShortConflict(error) ? conflicts : this.#backoff).next();
        log.warn('registration failed, retrying', {
          reason: error.message,
          delayMs: Math.round(delayMs),
        });
        await this.#sleep(delayMs, signal);
      }
    }
    return null;
  }

  /** Connects and serves until the connection is lost. Returns true when the rendezvous refuses the URL. */
  async #serve({ url, registrationId }: Registration): Promise<boolean> {
    const { log } = this.#options;
    const { signal } = this.#stop;
    const headers = { 'x-request-id': `req_${randomBytes(16).toString('hex')}` };
    try {
      const pipe = await openRendezvous(url, { ...this.#outbound, headers, text: 'ignore' }, signal);
      const lost = new Promise<CloseReason | undefined>((resolve) => {
        this.#pipeLost = resolve;
      });
      // If the link was closed meanwhile, it closes the pipe without an event.
      this.#link.attach(pipe, registrationId);
      if (signal.aborted) return false;
      const connectedAt = this.#now();
      log.info('connected to the rendezvous', { rendezvous: withoutQuery(url) });
      this.#options.onConnected?.();
      const { code = null, reason: given = '' } = (await lost) ?? {};
      const reason = withoutSecrets(given, secretsOfUrl(url));
      // A rendezvous that accepts connections only to close them must not be asked every second.
      if (this.#now() - connectedAt >= EXECUTOR_STABLE_MS) this.#backoff.reset();
      if (!signal.aborted) {
        log.warn('lost the connection to the rendezvous', { rendezvous: withoutQuery(url), code, reason });
      }
      return false;
    } catch (error) {
      if (signal.aborted) return false;
      log.warn('cannot reach the rendezvous', {
        rendezvous: withoutQuery(url),
        reason: (error as Error).message,
      });
      return error instanceof UpgradeRefusedError && isRefusal(error.status);
    }
  }
}

/** The time of an executor, for tests. */
interface TestTime {
  readonly sleep?: typeof sleepFor;
  readonly now?: () => number;
}

/** Whether a registration is refused for a moment: another one is in progress, or the registry cannot check credentials. */
function isShortConflict({ status, code }: RegistryError): boolean {
  return (
    (status === 503 && code === 'registration_conflict') ||
    (status === 502 && code === 'authentication_service_unavailable')
  );
}

/** Whether a status means that the URL is invalid. 408 and 429 are temporary. */
function isRefusal(status: number): boolean {
  return status >= 400 && status <= 499 && status !== 408 && status !== 429;
}
