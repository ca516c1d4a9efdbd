import { expect, test } from 'vitest';
import { Metrics } from '../../../src/observability/metrics.ts';
import { parseExposition } from './parse-exposition.ts';

test('prints a counter', () => {
  const metrics = new Metrics();
  const counter = metrics.counter('jobs_total', 'Jobs done.');
  expect(metrics.text()).toBe('# HELP jobs_total Jobs done.\n# TYPE jobs_total counter\n');
  counter.add();
  counter.add({}, 2);
  counter.add({ kind: 'a' });
  expect(metrics.text()).toBe(
    '# HELP jobs_total Jobs done.\n# TYPE jobs_total counter\njobs_total 3\njobs_total{kind="a"} 1\n',
  );
});

test('reads a gauge when the metrics are read', () => {
  const metrics = new Metrics();
  let value = 1;
  metrics.gauge('open', 'Open.', () => [{ labels: { state: 'x' }, value }]);
  value = 7.5;
  expect(metrics.text()).toBe('# HELP open Open.\n# TYPE open gauge\nopen{state="x"} 7.5\n');
});

test('counts histogram values up to each bound, and all in +Inf', () => {
  const metrics = new Metrics();
  const seconds = metrics.histogram('took_seconds', 'Time.', [0.1, 1]);
  for (const value of [0.05, 0.1, 0.5, 3]) seconds.observe({ method: 'm' }, value);
  expect(metrics.text().split('\n').slice(2)).toEqual([
    'took_seconds_bucket{method="m",le="0.1"} 2',
    'took_seconds_bucket{method="m",le="1"} 3',
    'took_seconds_bucket{method="m",le="+Inf"} 4',
    'took_seconds_sum{method="m"} 3.65',
    'took_seconds_count{method="m"} 4',
    '',
  ]);
});

test('escapes special characters of the format', () => {
  const metrics = new Metrics();
  metrics.gauge('odd', 'A \\ and\na line end.', () => [
    { labels: { text: 'quote " back \\ line\nend' }, value: Number.POSITIVE_INFINITY },
  ]);
  expect(metrics.text()).toBe(
    '# HELP odd A \\\\ and\\na line end.\n# TYPE odd gauge\nodd{text="quote \\" back \\\\ line\\nend"} +Inf\n',
  );
  expect(parseExposition(metrics.text()).get('odd')).toEqual([
    { labels: { text: 'quote " back \\ line\nend' }, value: Number.POSITIVE_INFINITY },
  ]);
});

test('rejects an invalid line in the strict parser', () => {
  for (const wrong of [
    'no_type 1\n',
    '# TYPE x counter\nx one\n',
    '# TYPE x counter\nx{a=b} 1\n',
    '# TYPE x counter\nx 1',
  ]) {
    expect(() => parseExposition(wrong)).toThrow();
  }
});
