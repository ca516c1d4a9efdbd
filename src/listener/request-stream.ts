import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { ConnectionTurns, TurnCredit } from '../transport/turn-credit.ts';
import { countedAddress, type Peer } from './connection-slots.ts';
import { LATE_TIMER_MS, MAX_REQUEST_CREDITS, MAX_UNANSWERED_REQUESTS, REQUEST_TURN_BYTES } from './limits.ts';

/** The credits of the addresses that connect. The connections of one address share their turns until they are websockets. */
export class RequestCredits {
  /** The address that connected longest ago first. */
  readonly #credits = new Map<string | null, TurnCredit>();

  /** Returns the credit for a connection. All local clients count as one address. */
  of(socket: Peer): TurnCredit {
    const address = countedAddress(socket);
    const credit = this.#credits.get(address) ?? new TurnCredit(REQUEST_TURN_BYTES);
    this.#credits.delete(address);
    this.#credits.set(address, credit);
    const [oldest] = this.#credits.keys();
    if (this.#credits.size > MAX_REQUEST_CREDITS && oldest !== undefined) this.#credits.delete(oldest);
    return credit;
  }
}

/**
 * A client's connection as the HTTP parser sees it, until it becomes a websocket. The parser handles everything that it gets in one turn,
 * and a client may send thousands of requests in a row. So it gets a few bytes per turn, and connections take turns. It gets no further
 * requests while many have no answer: each of them takes memory, and refusals are answered seconds later. A client that does not send a
 * whole request in time is cut off.
 */
export class RequestStream extends Duplex {
  readonly #socket: Socket;
  readonly #turns: ConnectionTurns;
  /** Received bytes that the parser does not have yet. */
  #rest: Buffer | null = null;
  /** Whether the parser wants no more at the moment. */
  #isFull = false;
  /** The last request that the parser has found, and how many have no answer yet. */
  #latest: IncomingMessage | null = null;
  #unanswered = 0;
  #hasEnded = false;
  #isReleased = false;
  readonly #requestTimeoutMs: number;
  /** Runs until the connection becomes a websocket, and from each response to the next request. */
  #timer: NodeJS.Timeout | undefined;
  readonly #onData = (chunk: Buffer) => {
    this.#rest = this.#rest === null ? chunk : Buffer.concat([this.#rest, chunk]);
    this.#continue();
  };
  readonly #onEnd = () => {
    this.#hasEnded = true;
    this.#continue();
  };
  readonly #onError = (error: Error) => void this.destroy(error);
  readonly #onClose = () => void this.destroy();
  readonly #onTimeout = () => void this.emit('timeout');

  constructor(socket: Socket, requestTimeoutMs: number, credit: TurnCredit) {
    super({ allowHalfOpen: true });
    // Each unanswered request may wait for the end of the connection.
    this.setMaxListeners(0);
    this.#socket = socket;
    this.#turns = new ConnectionTurns(credit, () => this.#continue());
    this.#requestTimeoutMs = requestTimeoutMs;
    this.#expectRequest(null);
    socket.on('data', this.#onData);
    socket.on('end', this.#onEnd);
    socket.on('error', this.#onError);
    socket.on('close', this.#onClose);
    socket.on('timeout', this.#onTimeout);
  }

  get remoteAddress(): string | undefined {
    return this.#socket.remoteAddress;
  }

  get remotePort(): number | undefined {
    return this.#socket.remotePort;
  }

  get localAddress(): string | undefined {
    return this.#socket.localAddress;
  }

  /** The parser has the head of a request. The next one is expected after the response. */
  requestBegun(request: IncomingMessage, response: ServerResponse): void {
    clearTimeout(this.#timer);
    if (!request.complete) this.#expectRequest(request);
    this.#latest = request;
    this.#unanswered++;
    response.once('close', () => {
      this.#unanswered--;
      this.#expectRequest(null);
      this.#continue();
    });
  }

  /** Node's HTTP server ends idle connections with it. */
  setTimeout(timeoutMs: number, listener?: () => void): this {
    this.#socket.setTimeout(timeoutMs);
    if (listener !== undefined) this.once('timeout', listener);
    return this;
  }

  /** Closes the connection after everything that was written. Node's HTTP server ends connections with it. */
  destroySoon(): void {
    this.end();
    if (this.writableFinished) this.destroy();
    else this.once('finish', () => this.destroy());
  }

  /**
   * Returns the socket, and what the parser has not read of it. Answers to earlier requests that come later are dropped, because the socket
   * speaks another protocol or is closed then. The stream closes with the socket.
   */
  release(): { readonly socket: Socket; readonly unread: Buffer } {
    const socket = this.#socket;
    this.#isReleased = true;
    clearTimeout(this.#timer);
    this.#turns.stop();
    socket.pause();
    socket.off('data', this.#onData);
    socket.off('end', this.#onEnd);
    socket.off('error', this.#onError);
    if (this.#unanswered === 0) socket.off('close', this.#onClose);
    socket.off('timeout', this.#onTimeout);
    // A write that the socket has not finished may fail. The new owner of the socket handles its errors.
    this.on('error', () => {});
    const unread: Buffer[] = [];
    for (let bytes: Buffer | null = this.read(); bytes !== null; bytes = this.read()) unread.push(bytes);
    if (this.#rest !== null) unread.push(this.#rest);
    return { socket, unread: Buffer.concat(unread) };
  }

  override _read(): void {
    this.#isFull = false;
    this.#continue();
  }

  override _write(chunk: Buffer, encoding: BufferEncoding, written: (error?: Error | null) => void): void {
    if (this.#isReleased) written();
    else this.#socket.write(chunk, encoding, written);
  }

  override _final(ended: () => void): void {
    if (this.#isReleased) ended();
    else this.#socket.end(ended);
  }

  override _destroy(error: Error | null, destroyed: (error: Error | null) => void): void {
    this.#turns.stop();
    this.#rest = null;
    clearTimeout(this.#timer);
    if (!this.#isReleased) this.#socket.destroy();
    destroyed(error);
  }

  /** Waits for the end of this request, or for the next one. */
  #expectRequest(current: IncomingMessage | null, mayWaitAgain = true): void {
    clearTimeout(this.#timer);
    if (this.destroyed || this.#isReleased) return;
    const dueAt = performance.now() + this.#requestTimeoutMs;
    this.#timer = setTimeout(() => {
      if (current?.complete) return;
      // The process was stopped or busy, and perhaps the whole machine. The request may have arrived in time, or is only now on its way.
      if (mayWaitAgain && performance.now() - dueAt > LATE_TIMER_MS) {
        this.#expectRequest(current, false);
        return;
      }
      this.end(TIMED_OUT);
      this.destroySoon();
    }, this.#requestTimeoutMs);
  }

  /** Whether what follows is another request, and waits for answers to those before. */
  get #mustAnswer(): boolean {
    return this.#unanswered >= MAX_UNANSWERED_REQUESTS && this.#latest?.complete === true;
  }

  #continue(): void {
    while (this.#rest !== null && !this.#isFull && !this.#turns.isWaiting && !this.#isReleased) {
      if (this.#mustAnswer) break;
      // Other connections of the address spend the same credit.
      this.#turns.endIfSpent();
      if (this.#turns.isWaiting) break;
      const piece = this.#rest.subarray(0, REQUEST_TURN_BYTES);
      this.#rest = piece.length === this.#rest.length ? null : this.#rest.subarray(piece.length);
      this.#turns.credit.spend(piece.length);
      this.#isFull = !this.push(piece);
    }
    this.#updateReading();
  }

  #updateReading(): void {
    if (this.#isReleased || this.destroyed) return;
    if (this.#rest !== null || this.#isFull || this.#turns.isWaiting) this.#socket.pause();
    else if (this.#hasEnded) this.push(null);
    else this.#socket.resume();
  }
}

const TIMED_OUT = 'HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n';
