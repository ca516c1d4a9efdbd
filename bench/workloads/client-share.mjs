import { now } from './pace.mjs';

/**
 * The row that shows whether the client was the bottleneck: at 100 % of a core it was.
 * @type {import('./index.mjs').Row}
 */
export const CLIENT_BUSY = { key: 'client', label: 'client CPU, of one core', unit: '%', better: null };

/** Starts the clock. The returned function reports how much of one core this process has used since, in percent. */
export function clientShare() {
  const before = process.cpuUsage();
  const began = now();
  return () => {
    const { user, system } = process.cpuUsage(before);
    return ((user + system) / 1000 / (now() - began)) * 100;
  };
}
