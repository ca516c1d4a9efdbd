import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { ServerMetrics } from '../../../../src/server/records/server-metrics.ts';

const STATE = {
  draining: false,
  connections: 0,
  attachedSessions: 0,
  detachedSessions: 0,
  detachedProcesses: { processes: 2, bytes: 300 },
  attachments: 0,
  queuedRequests: 0,
  runningRequests: 0,
  outboundBytes: 0,
  audit: null,
};

test('the scrapes of one turn share one text, and the next turn has a new one', async () => {
  let texts = 0;
  const metrics = new ServerMetrics(() => {
    texts++;
    return STATE;
  });
  const before = metrics.scrape();
  const reads = texts;
  metrics.connected('websocket');
  for (let count = 0; count < 100; count++) expect(metrics.scrape()).toBe(before);
  expect(texts).toBe(reads);
  await nextTurn();
  expect(metrics.scrape()).toContain('exec_server_connections_total{transport="websocket"} 1');
  expect(before).not.toContain('exec_server_connections_total{transport="websocket"} 1');
});
