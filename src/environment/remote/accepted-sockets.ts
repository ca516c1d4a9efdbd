import { CallLimit } from '../../client/call-limit.ts';
import type { TransportSource } from '../../client/client-core.ts';
import { ClientError } from '../../client/errors.ts';
import { REPLACED_SOCKET_END_MS } from '../limits.ts';
import type { ClientLike } from './connection.ts';

/** An open connection as the host hands it over. */
export type AcceptedSocket = Awaited<ReturnType<TransportSource['open']>>;

/**
 * The connections of an executor that connects by itself: the host hands over the first one, and later ones when the executor
 * comes back. A client that has lost its connection waits here for the next.
 */
export class AcceptedSockets {
  readonly #name: string;
  #next: AcceptedSocket | null;
  #current: CuttableSocket | null = null;
  /** Resolves when the replaced connection is gone on both sides, as far as that can be known. */
  #predecessor: Promise<void> = Promise.resolve();
  #wake: (() => void) | null = null;
  /** A replacement is under way until the client has tried it. */
  #replacing = false;

  constructor(name: string, first: AcceptedSocket) {
    this.#name = name;
    this.#next = first;
  }

  /** The next connection, as soon as there is one. Rejects when the signal aborts; what comes later is kept for the next call. */
  async open(signal: AbortSignal): Promise<AcceptedSocket> {
    // Whoever asks for another one is done with the last.
    if (this.#next === null) this.#replacing = false;
    do {
      while (this.#next === null) await this.#arrival(signal);
      await this.#predecessorGone(signal);
    } while (this.#next === null);
    this.#current = new CuttableSocket(this.#next);
    this.#next = null;
    return this.#current;
  }

  /**
   * Hands over a connection in place of the present one and returns at once; `client` resumes its session on it. Throws when it
   * would never be used: before the first handshake is done, after the client has failed, while another one is being tried.
   */
  replace(socket: AcceptedSocket, client: ClientLike | null): void {
    if (client === null) {
      throw this.#refusal(
        'it has no session',
        'try again when it is ready, or accept the connection as a new environment if it has failed',
      );
    }
    if (client.state === 'failed' || client.state === 'closed') {
      throw this.#refusal('its session has ended', 'accept the connection as a new environment');
    }
    if (this.#replacing) throw this.#refusal('another connection is being tried', 'try again later');
    this.#replacing = true;
    this.#next = socket;
    const stop = client.onStateChange(() => {
      if (client.state === 'recovering') return;
      stop();
      this.#replacing = false;
      this.#discardUnused();
    });
    const replaced = this.#current;
    this.#current = null;
    this.#predecessor = replaced?.gone ?? Promise.resolve();
    // Whoever hears of the end may ask for the next one at once.
    replaced?.cut(`${this.#name} has a new connection`);
    this.#wake?.();
  }

  /** An executor that has not noticed the end of the last connection would refuse the session on the next. */
  async #predecessorGone(signal: AbortSignal): Promise<void> {
    const limit = new CallLimit('the end', { signal, timeoutMs: REPLACED_SOCKET_END_MS });
    await limit.race(this.#predecessor).catch(() => {});
    limit.end();
    signal.throwIfAborted();
  }

  #arrival(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const abort = () => reject(signal.reason);
      if (signal.aborted) {
        abort();
        return;
      }
      signal.addEventListener('abort', abort, { once: true });
      this.#wake = () => {
        signal.removeEventListener('abort', abort);
        resolve();
      };
    });
  }

  /** The client has recovered by other means or failed: nobody will ask for the socket. */
  #discardUnused(): void {
    this.#next?.close({ code: 1001, reason: `${this.#name} does not need this connection` });
    this.#next = null;
  }

  #refusal(problem: string, hint: string): ClientError {
    return new ClientError('invalidInput', `${this.#name} cannot take another connection: ${problem}`, {
      hint,
    });
  }
}

type SocketEvents = Parameters<AcceptedSocket['open']>[0];
type CloseReason = Parameters<AcceptedSocket['close']>[0];

/** A socket whose end can be declared. A peer that is gone without a word would keep an orderly close waiting. */
class CuttableSocket implements AcceptedSocket {
  /** Resolves when the socket is closed, which may be long after its end was declared. */
  readonly gone: Promise<void>;
  readonly #inner: AcceptedSocket;
  #resolveGone: () => void = () => {};
  #events: SocketEvents | null = null;
  #ended = false;

  constructor(inner: AcceptedSocket) {
    this.#inner = inner;
    this.gone = new Promise((resolve) => {
      this.#resolveGone = resolve;
    });
  }

  open(events: SocketEvents): void {
    this.#events = events;
    this.#inner.open({
      message: (text) => this.#unlessEnded(() => events.message(text)),
      undecodable: (reason) => this.#unlessEnded(() => events.undecodable(reason)),
      drained: () => this.#unlessEnded(() => events.drained()),
      ended: () => this.#unlessEnded(() => events.ended()),
      closed: (reason) => {
        this.#resolveGone();
        this.#end(reason);
      },
    });
  }

  send(message: string | Uint8Array, released?: () => void): boolean {
    return this.#ended || this.#inner.send(message, released);
  }

  sendPart(part: Uint8Array, last: boolean, released?: () => void): boolean {
    return this.#ended || this.#inner.sendPart(part, last, released);
  }

  setReceiving(receiving: boolean): void {
    this.#inner.setReceiving(receiving);
  }

  close(reason: CloseReason): void {
    this.#inner.close(reason);
  }

  /** Ends it at once for its owner; the other side is told if it listens. */
  cut(reason: string): void {
    const closeReason = { code: 1001, reason };
    this.#inner.close(closeReason);
    // Nobody would tell.
    if (this.#events === null) this.#resolveGone();
    this.#end(closeReason);
  }

  #end(reason: CloseReason): void {
    this.#unlessEnded(() => {
      this.#ended = true;
      this.#events?.closed(reason);
    });
  }

  #unlessEnded(report: () => void): void {
    if (!this.#ended) report();
  }
}
