import { setTimeout as sleep } from 'node:timers/promises';

export { sleep };

/** Milliseconds, with fractions. */
export const now = () => performance.now();

/**
 * Repeats `step` sequentially and returns how long each took, in milliseconds, or the time that the step returns. Stops after `max`
 * steps, or after `seconds` once `min` steps are done, so that a slow server gets fewer samples instead of more time.
 */
export async function timed(step, { warmUp = 0, min = 1, max, seconds }) {
  for (let i = 0; i < warmUp; i++) await step(-1 - i);
  const samples = [];
  const began = now();
  while (samples.length < max && (samples.length < min || now() - began < seconds * 1000)) {
    const start = now();
    const took = await step(samples.length);
    samples.push(took ?? now() - start);
  }
  return samples;
}

/** Runs `step` `count` times with `inFlight` of them concurrently; resolves when all are done. */
export async function concurrently(count, inFlight, step) {
  let next = 0;
  const worker = async () => {
    while (next < count) await step(next++);
  };
  await Promise.all(Array.from({ length: Math.min(inFlight, count) }, worker));
}
