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

/** Waits for a result; fails with `late()` when it takes too long. */
export async function within<T>(timeoutMs: number, work: Promise<T>, late: () => Error): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const expired = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(late()), timeoutMs);
  });
  try {
    return await Promise.race([work, expired]);
  } finally {
    clearTimeout(timer);
  }
}
