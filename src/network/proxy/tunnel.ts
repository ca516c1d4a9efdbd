import type { ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import { keepReadableAfterWriteError } from '../failed-writes.ts';
import { CONNECT_TIMEOUT_MS, IDLE_TIMEOUT_MS, MAX_ADDRESSES_TRIED } from './limits.ts';

/** A signal that is aborted when whoever waits at the stream goes, or the proxy closes. */
export function abortOnClose(stream: Socket | ServerResponse, closing: AbortSignal): AbortSignal {
  const controller = new AbortController();
  const abort = () => controller.abort();
  closing.addEventListener('abort', abort, { once: true });
  stream.once('close', () => {
    closing.removeEventListener('abort', abort);
    abort();
  });
  if (closing.aborted || stream.destroyed) abort();
  return controller.signal;
}

/** Connects to the first of the addresses that accepts. Rejects when none does, and when the signal is aborted. */
export async function connectToOne(
  addresses: readonly string[],
  port: number,
  signal: AbortSignal,
): Promise<Socket> {
  let failure: unknown = new Error('the host has no address');
  for (const address of addresses.slice(0, MAX_ADDRESSES_TRIED)) {
    try {
      return await connectTo(address, port, signal);
    } catch (error) {
      failure = error;
      if (signal.aborted) break;
    }
  }
  throw failure;
}

/** Lets two sockets talk to each other until both are done; neither runs ahead of the other, and if one breaks both end. */
export function joinSockets(client: Socket, upstream: Socket): void {
  for (const [from, to] of [
    [client, upstream],
    [upstream, client],
  ] as const) {
    from.setTimeout(IDLE_TIMEOUT_MS, () => from.destroy());
    from.on('error', () => {});
    // What was read before a proper end is still delivered.
    from.on('close', (broken) => (broken ? to.destroy() : to.destroySoon()));
    from.pipe(to);
  }
}

function connectTo(host: string, port: number, signal: AbortSignal): Promise<Socket> {
  return new Promise((resolve, reject) => {
    // An address is never resolved; were it a name after all, this would be the second answer of a name server.
    const lookup = () => reject(new Error('only addresses are connected to'));
    const socket = connect({ host, port, allowHalfOpen: true, noDelay: true, lookup });
    const fail = (error: Error) => {
      socket.destroy();
      settled();
      reject(error);
    };
    const abandon = () => fail(new Error('the connection is not wanted any more'));
    const timer = setTimeout(() => fail(new Error('the host does not answer')), CONNECT_TIMEOUT_MS);
    const settled = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', abandon);
      socket.off('error', fail);
      // What goes wrong from here on is seen by whoever uses the socket, or concerns nobody.
      socket.on('error', () => {});
    };
    signal.addEventListener('abort', abandon, { once: true });
    if (signal.aborted) abandon();
    socket.once('error', fail);
    socket.once('connect', () => {
      settled();
      keepReadableAfterWriteError(socket);
      resolve(socket);
    });
  });
}
