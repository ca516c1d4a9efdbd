import { Agent } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';

type Written = (error?: Error | null) => void;

/** Sockets on which a write has failed. */
const broken = new WeakSet<Duplex>();

/**
 * Keeps a socket readable after a write error. A server that rejects a request body responds and resets the connection. By default
 * Node destroys a socket whose write fails, together with a response that has arrived but is not read yet. Here writes that fail
 * are dropped, and the socket ends after everything has been read.
 */
export function keepReadableAfterWriteError(socket: Socket): void {
  const dropFailure = (done: Written) => (error?: Error | null) => {
    if (error instanceof Error) broken.add(socket);
    done();
  };
  const write = socket._write.bind(socket);
  const writeSeveral = socket._writev?.bind(socket);
  socket._write = (chunk, encoding, done) =>
    broken.has(socket) ? done() : write(chunk, encoding, dropFailure(done));
  if (writeSeveral !== undefined) {
    socket._writev = (chunks, done) =>
      broken.has(socket) ? done() : writeSeveral(chunks, dropFailure(done));
  }
  // A connection that can only be read is not reused.
  socket.once('end', () => {
    if (broken.has(socket)) socket.destroy();
  });
}

/** An agent that does not reuse a connection on which a write has failed. */
export class ReliableAgent extends Agent {
  override keepSocketAlive(socket: Duplex): boolean {
    // Returns whether to keep the socket, although its type says void.
    const isKept: unknown = super.keepSocketAlive(socket);
    return isKept === true && !broken.has(socket);
  }
}
