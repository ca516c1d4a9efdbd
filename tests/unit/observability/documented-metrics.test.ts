import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { RelayMetrics } from '../../../src/relay/service/records/relay-metrics.ts';
import { ServerMetrics } from '../../../src/server/records/server-metrics.ts';

const ROOT = new URL('../../../', import.meta.url);

/** The metrics of a text in the Prometheus format, with their types. */
function families(text: string): [string, string][] {
  return [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name, type]) => [name!, type!]);
}

const STATE = {
  connections: 0,
  draining: false,
  attachedSessions: 0,
  detachedSessions: 0,
  detachedProcesses: { processes: 0, bytes: 0 },
  attachments: 0,
  queuedRequests: 0,
  runningRequests: 0,
  outboundBytes: 0,
  audit: null,
};

/** Metrics that are defined. Their values do not matter here, so there is no state. */
const served = new Map([
  ...families(new ServerMetrics(() => STATE).text()),
  ...families(
    new RelayMetrics(() => ({
      executors: 0,
      harnesses: 0,
      streams: 0,
      queuedBytes: 0,
      leases: 0,
      storeAvailable: true,
    })).text(),
  ),
]);

test('the guide documents every metric with its type, and no other', () => {
  const guide = readFileSync(new URL('docs/guides/observability.md', ROOT), 'utf8');
  const rows = [...guide.matchAll(/^\| `((?:exec_server|process)_\w+)` \| (\w+) \|/gm)];
  expect(rows.map(([, name, type]) => [name, type]).sort()).toEqual([...served].sort());
});

test('the dashboard of Grafana uses only metrics that exist', () => {
  const text = readFileSync(new URL('deploy/grafana/exec-server.json', ROOT), 'utf8');
  const dashboard = JSON.parse(text);
  const used = new Set([...text.matchAll(/\b(?:exec_server|process)_\w+/g)].map(([name]) => name));
  const existing = [...served].flatMap(([name, type]) =>
    type === 'histogram' ? [`${name}_bucket`, `${name}_sum`, `${name}_count`] : [name],
  );
  expect([...used].filter((name) => !existing.includes(name))).toEqual([]);
  // Every panel but a heading has a query, and no two panels overlap.
  const places = new Set<string>();
  for (const { type, targets = [], gridPos, title } of dashboard.panels) {
    if (type !== 'row') expect([title, targets.length > 0]).toEqual([title, true]);
    for (let x = gridPos.x; x < gridPos.x + gridPos.w; x++) {
      for (let y = gridPos.y; y < gridPos.y + gridPos.h; y++) {
        expect([title, places.has(`${x},${y}`)]).toEqual([title, false]);
        places.add(`${x},${y}`);
      }
    }
  }
});
