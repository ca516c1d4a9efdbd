import { setTimeout as delay } from 'node:timers/promises';

/** Waits until a condition that nobody announces is met; fails when it takes too long. */
export async function until(met: () => boolean, what: string, timeoutMs = 20_000): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  while (!met()) {
    if (performance.now() > deadline) throw new Error(`${timeoutMs} ms passed while waiting for ${what}`);
    await delay(POLL_MS);
  }
}

const POLL_MS = 10;
