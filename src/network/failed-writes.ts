import { Agent, type ClientRequest, type IncomingMessage } from 'node:http';
import { type OnReadOpts, Socket } from 'node:net';
import type { Duplex } from 'node:stream';

type Written = (error?: Error | null) => void;

/**
 * A TCP socket that stays readable after a write error. A server that rejects a request body responds and resets the connection. By
 * default Node destroys a socket whose write fails, together with a response that has arrived but is not read yet. Here writes that
 * fail are dropped, and the socket closes after everything has been read.
 */
export class LenientSocket extends Socket {
  #isBroken = false;

  constructor(options: { readonly allowHalfOpen: boolean; readonly onread?: OnReadOpts }) {
    super(options);
    // A connection that can only be read is not reused.
    this.once('end', () => {
      if (this.#isBroken) this.destroy();
    });
  }

  /** Whether a write has failed. */
  get isBroken(): boolean {
    return this.#isBroken;
  }

  override _write(chunk: Buffer, encoding: BufferEncoding, done: Written): void {
    if (this.#isBroken) done();
    else super._write(chunk, encoding, this.#dropFailure(done));
  }

  override _writev(chunks: { chunk: Buffer; encoding: BufferEncoding }[], done: Written): void {
    if (this.#isBroken) done();
    else super._writev!(chunks, this.#dropFailure(done));
  }

  #dropFailure(done: Written): Written {
    return (error) => {
      if (error instanceof Error) this.#isBroken = true;
      done();
      if (this.#isBroken && this.readableEnded) this.destroy();
    };
  }
}

/** The TCP sockets below TLS sockets. */
const tcpSockets = new WeakMap<Duplex, LenientSocket>();

/** Says that a TLS socket uses this TCP socket. */
export function setTcpSocket(secured: Duplex, tcp: LenientSocket): void {
  tcpSockets.set(secured, tcp);
}

/** An agent that does not reuse a connection on which a write has failed. */
export class ReliableAgent extends Agent {
  override keepSocketAlive(socket: Duplex): boolean {
    // Returns whether to keep the socket, although its type says void.
    const isKept: unknown = super.keepSocketAlive(socket);
    const tcp = tcpSocketOf(socket);
    // TLS over a stream has no effect on the TCP socket below. An idle connection does not keep the process running.
    tcp?.unref();
    return isKept === true && tcp?.isBroken !== true;
  }

  override reuseSocket(socket: Duplex, request: ClientRequest): void {
    super.reuseSocket(socket, request);
    tcpSocketOf(socket)?.ref();
  }
}

/**
 * Watches the connection of a response. The returned function returns whether a body that has ended may be incomplete: only the end of
 * the connection ends it, and the connection was reset. Node takes a reset for such an end.
 */
export function watchForReset(request: ClientRequest, answer: IncomingMessage): () => boolean {
  const tcp = tcpSocketOf(answer.socket);
  let failed = false;
  request.on('error', () => {
    failed ||= !answer.complete;
  });
  return () => endsWithConnection(request.method, answer) && (failed || tcp?.isBroken === true);
}

/** Whether the body has no other end than that of the connection (RFC 9112, section 6.3). */
function endsWithConnection(method: string, { statusCode = 0, headers }: IncomingMessage): boolean {
  if (method === 'HEAD' || statusCode === 204 || statusCode === 304) return false;
  const coding = headers['transfer-encoding'];
  return coding === undefined ? headers['content-length'] === undefined : !/\bchunked\s*$/i.test(coding);
}

/** The TCP socket of a connection, which may use TLS. */
export function tcpSocketOf(socket: Duplex): LenientSocket | undefined {
  return socket instanceof LenientSocket ? socket : tcpSockets.get(socket);
}
