import { Agent } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';

type Written = (error?: Error | null) => void;

/** Sockets on which a write has failed. */
const broken = new WeakSet<Duplex>();

/**
 * Keeps a socket readable when it can no longer be written to. A server that refuses what it is sent answers and resets the
 * connection; by itself a socket whose write fails is destroyed, and with it an answer that has arrived and is not read yet. Here what
 * cannot be written is dropped, and the socket ends with what there is to read.
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
  // Half of a connection that is broken is no use to anybody.
  socket.once('end', () => {
    if (broken.has(socket)) socket.destroy();
  });
}

/** An agent that keeps no connection for a next request on which a write has failed. */
export class ReliableAgent extends Agent {
  override keepSocketAlive(socket: Duplex): boolean {
    // It says whether to keep the socket, although its type does not.
    const isKept: unknown = super.keepSocketAlive(socket);
    return isKept === true && !broken.has(socket);
  }
}
