import type { Duplex } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';

/** Waits before a refusal. Ends with the connection: clients that come and go must not leave requests that wait. */
export async function refusalDelay(socket: Duplex, delayMs: number): Promise<void> {
  if (socket.destroyed) return;
  const closed = new AbortController();
  const end = () => closed.abort();
  socket.once('close', end);
  await delay(delayMs, undefined, { ref: false, signal: closed.signal }).catch(() => {});
  socket.off('close', end);
}

/**
 * Closes the connection of a websocket that is about to be refused as soon as its client ends it, which a paused socket does not report.
 * Clients send nothing before the answer, so a connection with more data is closed too.
 */
export function closeWithClient(socket: Duplex): void {
  const close = () => void socket.destroy();
  socket.once('end', close).once('data', close).resume();
}
