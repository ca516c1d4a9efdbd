import { CallLimit } from '../../client/connection/call-limit.ts';
import type { TransportSource } from '../../client/connection/session-options.ts';
import { ClientError } from '../../client/errors.ts';
import { REPLACED_SOCKET_END_MS } from '../limits.ts';
import type { ClientLike } from './connection.ts';

/** An open connection from the host program. */
export type AcceptedSocket = Awaited<ReturnType<TransportSource['open']>>;

/**
 * The connections of an executor that connects to the host program. The host passes the first one, and another one when the
 * executor reconnects. A client that lost its connection waits here for the next.
 */
export class AcceptedSockets {
  readonly #name: string;
  #next: AcceptedSocket | null;
  #current: CuttableSocket | null = null;
  /** Resolves when the replaced connection is closed on both sides, as far as this side can tell. */
  #predecessor: Promise<void> = Promise.resolve();
  #wake: (() => void) | null = null;
  /** Whether the client has yet to try a replacement. */
  #replacing = false;

  constructor(name: string, first: AcceptedSocket) {
    this.#name = name;
    this.#next = first;
  }

  /** Waits for the next connection. Rejects when the signal aborts; a later connection is kept for the next call. */
  async open(signal: AbortSignal): Promise<AcceptedSocket> {
    // A client that requests another connection no longer uses the last one.
    if (this.#next === null) this.#replacing = false;
    do {
      while (this.#next === null) await this.#nextSocket(signal);
      await this.#predecessorClosed(signal);
    } while (this.#next === null);
    this.#current = new CuttableSocket(this.#next);
    this.#next = null;
    return this.#current;
  }

  /**
   * Replaces the connection and returns immediately; `client` resumes its session on it. Throws when the connection would never be
   * used: before the first handshake is done, after the client failed, or while the client tries another one.
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
    this.#predecessor = replaced?.closed ?? Promise.resolve();
    // A listener may request the next connection synchronously.
    replaced?.cut(`${this.#name} has a new connection`);
    this.#wake?.();
  }

  /** An executor that has not noticed the close of the last connection would refuse the session on the next one. */
  async #predecessorClosed(signal: AbortSignal): Promise<void> {
    const limit = new CallLimit('the end', { signal, timeoutMs: REPLACED_SOCKET_END_MS });
    await limit.race(this.#predecessor).catch(() => {});
    limit.end();
    signal.throwIfAborted();
  }

  #nextSocket(signal: AbortSignal): Promise<void> {
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

  /** Closes a socket that the client no longer needs, because it recovered otherwise or failed. */
  #discardUnused(): void {
    this.#next?.close({ code: 1001, reason: `${this.#name} no longer needs this connection` });
    this.#next = null;
  }

  #refusal(problem: string, hint: string): ClientError {
    return new ClientError('invalidInput', `${this.#name} cannot use another connection: ${problem}`, {
      hint,
    });
  }
}

type SocketEvents = Parameters<AcceptedSocket['open']>[0];
type CloseReason = Parameters<AcceptedSocket['close']>[0];

/** A socket that can be closed without the close handshake, which would wait for a vanished peer. */
class CuttableSocket implements AcceptedSocket {
  /** Resolves when the socket is closed, which may be long after `cut`. */
  readonly closed: Promise<void>;
  readonly #inner: AcceptedSocket;
  #resolveClosed: () => void = () => {};
  #events: SocketEvents | null = null;
  #ended = false;

  constructor(inner: AcceptedSocket) {
    this.#inner = inner;
    this.closed = new Promise((resolve) => {
      this.#resolveClosed = resolve;
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
        this.#resolveClosed();
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

  /** Closes the socket for its owner immediately. The close handshake continues in the background. */
  cut(reason: string): void {
    const closeReason = { code: 1001, reason };
    this.#inner.close(closeReason);
    // A socket that was never opened reports no close.
    if (this.#events === null) this.#resolveClosed();
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
