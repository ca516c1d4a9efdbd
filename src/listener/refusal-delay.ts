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
