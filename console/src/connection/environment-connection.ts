import { ClientError, ExecServerClient } from '../../../src/client/browser.ts';
import { FREQUENT_PINGS } from '../../../src/client/limits.ts';
import { describeError } from '../base/format.ts';
import { Store } from '../base/store.ts';
import { ApiError, fetchTicket, type Ticket } from '../session/api.ts';

/** Why a session of the console is over. */
export type EndCode = 'signedOut' | 'expired' | 'kicked';

export type ConnectionStatus =
  | { readonly kind: 'connecting' }
  | { readonly kind: 'online' }
  /** The line is lost; the client resumes its session as soon as the server answers. */
  | { readonly kind: 'recovering'; readonly why: string }
  /** The server cannot be reached. The next attempt is at `retryAtMs`. */
  | { readonly kind: 'offline'; readonly why: string; readonly retryAtMs: number }
  | { readonly kind: 'over'; readonly code: EndCode; readonly message: string };

const FIRST_DELAY_MS = 500;
const MAX_DELAY_MS = 15_000;
/** A console that has not answered for so long has ended, or so has the line to it. */
const ENDED_AFTER_MS = 3000;

/** Environments that did not answer when they were last asked, by name. */
export const unreachable = new Store<ReadonlySet<string>>(new Set());

/**
 * The connection to one environment. The client resumes its session after short interruptions. After long ones a new client takes its
 * place, so what depends on a client follows {@link client}.
 */
export class EnvironmentConnection {
  readonly name: string;
  readonly status = new Store<ConnectionStatus>({ kind: 'connecting' });
  readonly client = new Store<ExecServerClient | null>(null);
  #delayMs = FIRST_DELAY_MS;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #closed = false;
  #hasConnected = false;
  /** Since when the console itself, not the environment behind it, does not answer. */
  #silentSinceMs: number | null = null;

  constructor(name: string) {
    this.name = name;
    addEventListener('online', this.#retryNow);
    void this.#connect();
  }

  /** Whether the environment has answered since the page was loaded. */
  get hasConnected(): boolean {
    return this.#hasConnected;
  }

  /** Whether the console itself has ended, or the line to it. */
  get hasEnded(): boolean {
    return this.#silentSinceMs !== null && Date.now() - this.#silentSinceMs >= ENDED_AFTER_MS;
  }

  /** Tries again without waiting for the next attempt. */
  retry(): void {
    if (this.status.value.kind !== 'offline') return;
    clearTimeout(this.#timer);
    void this.#connect();
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    removeEventListener('online', this.#retryNow);
    const client = this.client.value;
    this.client.set(null);
    client?.close().catch(() => {});
  }

  readonly #retryNow = () => this.retry();

  async #connect(): Promise<void> {
    this.status.set({ kind: 'connecting' });
    try {
      const first = await this.#fetchTicket();
      const url = new URL(first.path, location.href);
      url.protocol = location.protocol === 'https:' ? 'wss:' : 'ws:';
      let unused: Ticket | null = first;
      const client = await ExecServerClient.connect({
        url,
        clientName: 'console',
        // People look at programs until the server ends.
        whileDraining: true,
        ...FREQUENT_PINGS,
        protocols: async (signal) => {
          const { ticket } = unused ?? (await this.#newTicket(signal));
          unused = null;
          return ['exec-server', `ticket.${ticket}`];
        },
      });
      if (this.#closed) {
        await client.close();
        return;
      }
      this.#delayMs = FIRST_DELAY_MS;
      this.#hasConnected = true;
      this.#setReachable(true);
      client.onStateChange((state, failure) => this.#changed(client, state, failure));
      this.status.set({ kind: 'online' });
      this.client.set(client);
    } catch (error) {
      this.#failed(error);
    }
  }

  /** Gets a ticket for another connection of the same client. A session that is over ends the recovery. */
  async #newTicket(signal: AbortSignal): Promise<Ticket> {
    try {
      return await this.#fetchTicket(signal);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      const kind = error.isFinal ? 'permissionDenied' : 'connectFailed';
      throw new ClientError(kind, error.message, { retryable: !error.isFinal, data: error, cause: error });
    }
  }

  async #fetchTicket(signal?: AbortSignal): Promise<Ticket> {
    try {
      const ticket = await fetchTicket(this.name, signal);
      this.#silentSinceMs = null;
      return ticket;
    } catch (error) {
      const isSilent = error instanceof ApiError && error.code === 'offline';
      this.#silentSinceMs = isSilent ? (this.#silentSinceMs ?? Date.now()) : null;
      throw error;
    }
  }

  #setReachable(isReachable: boolean): void {
    const names = new Set(unreachable.value);
    if (isReachable) names.delete(this.name);
    else names.add(this.name);
    unreachable.set(names);
  }

  #changed(client: ExecServerClient, state: string, failure: ClientError | null): void {
    if (this.#closed || client !== this.client.value) return;
    if (state === 'connected') this.status.set({ kind: 'online' });
    if (state === 'recovering') this.status.set({ kind: 'recovering', why: describeError(failure) });
    if (state !== 'failed') return;
    this.client.set(null);
    this.#failed(failure);
  }

  #failed(error: unknown): void {
    if (this.#closed) return;
    const refusal = refusalOf(error);
    if (refusal !== null) {
      this.status.set({ kind: 'over', code: refusal.code as EndCode, message: describeError(refusal) });
      return;
    }
    const delayMs = this.#delayMs;
    this.#delayMs = Math.min(MAX_DELAY_MS, delayMs * 2);
    this.#setReachable(false);
    this.status.set({ kind: 'offline', why: describeError(error), retryAtMs: Date.now() + delayMs });
    this.#timer = setTimeout(() => void this.#connect(), delayMs);
  }
}

/** The server's statement that the session is over, if that is why something failed. */
function refusalOf(error: unknown): ApiError | null {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if (cause instanceof ApiError) return cause.isFinal ? cause : null;
  }
  return null;
}
