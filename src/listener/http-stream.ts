import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { PacedStream } from '../transport/paced-stream.ts';
import { encodeResponse, textResponse } from './http-response.ts';
import { HTTP_TURN_CREDIT } from './limits.ts';

/**
 * A connection on its way to the HTTP server, until it becomes a websocket. It passes a few requests per turn, so
 * that a client that sends many at once does not delay the others. It also ends a connection that takes too long
 * to send a request: an HTTP server does this only for the connections that it accepts itself.
 */
export class HttpStream extends PacedStream {
  declare protected readonly socket: Socket;
  readonly #timer: NodeJS.Timeout;
  /** Bytes of the current chunk that were passed on. */
  #passed = 0;
  /** The request that waits for its response. */
  #request: IncomingMessage | null = null;

  constructor(socket: Socket, requestTimeoutMs: number) {
    super(socket, Buffer.alloc(0), HTTP_TURN_CREDIT);
    this.#timer = setTimeout(() => this.#timedOut(), requestTimeoutMs);
    this.wantedChanged();
  }

  get remoteAddress(): string | undefined {
    return this.socket.remoteAddress;
  }

  get remotePort(): number | undefined {
    return this.socket.remotePort;
  }

  get localAddress(): string | undefined {
    return this.socket.localAddress;
  }

  /** The head of a request has arrived. The time for the next one begins after its response. */
  answering(request: IncomingMessage, response: ServerResponse): void {
    this.#request = request;
    response.once('close', () => {
      if (this.#request === request) this.#request = null;
      if (!this.destroyed) this.#timer.refresh();
    });
  }

  /** Gives the socket up for a websocket. Returns it with the bytes that followed the request. */
  detach(head: Buffer): { readonly socket: Socket; readonly head: Buffer } {
    clearTimeout(this.#timer);
    const rest = this.release().subarray(this.#passed);
    const unread: Buffer[] = [];
    for (let bytes: Buffer | null = this.read(); bytes !== null; bytes = this.read()) unread.push(bytes);
    return { socket: this.socket, head: Buffer.concat([head, ...unread, rest]) };
  }

  override _destroy(error: Error | null, destroyed: (error: Error | null) => void): void {
    clearTimeout(this.#timer);
    super._destroy(error, destroyed);
  }

  protected override isWanted(): boolean {
    return true;
  }

  protected override handle(chunk: Buffer): number {
    const piece = chunk.subarray(0, HTTP_TURN_CREDIT);
    this.spend(piece.length);
    this.#passed = piece.length;
    this.pass(piece);
    this.#passed = 0;
    return piece.length;
  }

  #timedOut(): void {
    if (this.#request?.complete) return;
    this.end(encodeResponse(textResponse(408), 'Request Timeout'), () => this.destroy());
  }
}
