import type { ServerResponse } from 'node:http';
import type { OnReadOpts, Socket } from 'node:net';
import { LenientSocket } from '../failed-writes.ts';
import { CONNECT_TIMEOUT_MS, IDLE_TIMEOUT_MS, MAX_ADDRESSES_TRIED } from './limits.ts';

/** A signal that aborts when the stream or the proxy closes. */
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

/** Connects to the first address that accepts. Rejects when none does and when the signal aborts. */
export function connectToOne(
  addresses: readonly string[],
  port: number,
  signal: AbortSignal,
): Promise<LenientSocket> {
  return firstToConnect(addresses, signal, (address) => connectTo(address, port, signal));
}

/** Tries the addresses in turn. Rejects with the last error, and when the signal aborts. */
export async function firstToConnect<T>(
  addresses: readonly string[],
  signal: AbortSignal,
  connect: (address: string) => Promise<T>,
): Promise<T> {
  let failure: unknown = new Error('the host has no address');
  for (const address of addresses.slice(0, MAX_ADDRESSES_TRIED)) {
    try {
      return await connect(address);
    } catch (error) {
      failure = error;
      if (signal.aborted) break;
    }
  }
  throw failure;
}

/** Pipes two sockets into each other with back-pressure until both have ended; if one breaks both are destroyed. */
export function joinSockets(client: Socket, upstream: Socket): void {
  for (const [from, to] of [
    [client, upstream],
    [upstream, client],
  ] as const) {
    from.setTimeout(IDLE_TIMEOUT_MS, () => from.destroy());
    from.on('error', () => {});
    // Data read before a regular end is still delivered.
    from.on('close', (broken) => (broken ? to.destroy() : to.destroySoon()));
    from.pipe(to);
  }
}

/** Connects to an address. With `onread` the socket is paused and passes what it reads there. */
export function connectTo(
  host: string,
  port: number,
  signal: AbortSignal,
  onread?: OnReadOpts,
): Promise<LenientSocket> {
  return new Promise((resolve, reject) => {
    // Only addresses are passed here. Resolving a name a second time could give an address that was not checked.
    const lookup = () => reject(new Error('only addresses can be connected to'));
    const socket = new LenientSocket({ allowHalfOpen: true, ...(onread && { onread }) }).setNoDelay(true);
    if (onread !== undefined) socket.pause();
    socket.connect({ host, port, lookup });
    const fail = (error: Error) => {
      socket.destroy();
      settled();
      reject(error);
    };
    const abandon = () => fail(new Error('the connection was cancelled'));
    const timer = setTimeout(() => fail(new Error('the host does not respond')), CONNECT_TIMEOUT_MS);
    const settled = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', abandon);
      socket.off('error', fail);
      // The user of the socket sees later errors; without one they are ignored.
      socket.on('error', () => {});
    };
    signal.addEventListener('abort', abandon, { once: true });
    if (signal.aborted) abandon();
    socket.once('error', fail);
    socket.once('connect', () => {
      settled();
      resolve(socket);
    });
  });
}
