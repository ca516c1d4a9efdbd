import { setTimeout as delay } from 'node:timers/promises';

/** Polls until the probe returns a truthy value, and returns it. Fails with `what` after the time limit. */
export async function waitFor<T>(what: string, probe: () => T | Promise<T>, limitMs = 40_000): Promise<T> {
  const deadline = performance.now() + limitMs;
  for (;;) {
    const value = await probe();
    if (value) return value;
    if (performance.now() > deadline) throw new Error(`waited ${limitMs} ms for ${what}`);
    await delay(5);
  }
}
