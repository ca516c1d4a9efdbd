import { percentile } from '../harness/statistics.mjs';

/** Milliseconds in one of the unit. */
const UNITS = { ms: 1, µs: 1000 };

/**
 * The median of a latency and its 99th percentile, which always go together: a fast median can hide slow requests.
 * @param {'ms' | 'µs'} unit
 * @param {{ label?: string, p50?: import('./index.mjs').Goal, p99?: import('./index.mjs').Goal }} [options] The label, and the goals.
 * @returns {import('./index.mjs').Row[]}
 */
export function latencyRows(unit, { label = '', p50, p99 } = {}) {
  const row = (key, goal) => ({
    key,
    label: `${label} ${key}`.trim(),
    unit,
    better: /** @type {const} */ ('lower'),
    ...(goal === undefined ? {} : { goal }),
  });
  return [row('p50', p50), row('p99', p99)];
}

/**
 * The metrics of {@link latencyRows}.
 * @param {number[]} samples In milliseconds.
 * @param {'ms' | 'µs'} unit
 */
export function latency(samples, unit) {
  return { p50: percentile(samples, 0.5) * UNITS[unit], p99: percentile(samples, 0.99) * UNITS[unit] };
}
