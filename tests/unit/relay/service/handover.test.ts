import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createLogger } from '../../../../src/observability/log.ts';
import { HARNESS_BACKOFF_MAX_MS, RESUME_WINDOW_MS } from '../../../../src/relay/limits.ts';
import { STORE_TIMEOUT_MS } from '../../../../src/relay/service/limits.ts';
import { RelayMetrics } from '../../../../src/relay/service/records/relay-metrics.ts';
import { RelayRecords } from '../../../../src/relay/service/records/relay-records.ts';
import { Rendezvous } from '../../../../src/relay/service/rendezvous/rendezvous.ts';
import { MemoryStore } from '../../../../src/relay/service/store/memory-store.ts';
import { CLOSE_TIMEOUT_MS } from '../../../../src/transport/limits.ts';
import { FakeSocket } from './fake-socket.ts';
import { someKey } from './relay-fixture.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const quiet = createLogger('error', () => {});

function nodeOf(store: MemoryStore, id: string): Rendezvous {
  const metrics = new RelayMetrics(() => ({ ...node.counts, leases: 0, storeAvailable: true }));
  const records = new RelayRecords(metrics, quiet, null);
  const node = new Rendezvous({ store, node: () => ({ id, url: `ws://${id}` }), records, log: quiet });
  return node;
}

test('closes harnesses in time to resume when their executor has moved to another node', async () => {
  const store = new MemoryStore();
  const [before, after] = [nodeOf(store, 'before'), nodeOf(store, 'after')];
  const result = await store.register('e', someKey());
  if (result.outcome === 'superseded') throw new Error('superseded');
  const { registrationId } = result;
  const ticket = { environmentId: 'e', registrationId, tokenId: 't' };
  const connectExecutor = async (node: Rendezvous) => {
    const lease = await node.leases.claim('e', registrationId);
    node.addExecutor(new FakeSocket().asSocket, lease!, { role: 'executor', ...ticket }, null);
  };
  await connectExecutor(before);
  const harnessTicket = { role: 'harness', ...ticket, nodeId: 'before', harnessKeyHash: 'h' } as const;
  const found = before.findExecutor(harnessTicket);
  if (typeof found === 'string') throw new Error(found);
  const harness = new FakeSocket();
  before.joinHarness(harness.asSocket, found, harnessTicket, null);

  // The executor's connection is lost silently and it reconnects to another node. Its streams wait from now on.
  await connectExecutor(after);
  vi.spyOn(store, 'renew').mockRejectedValueOnce(new Error('one question that is lost'));
  const longestWayBackMs = 1.5 * HARNESS_BACKOFF_MAX_MS;
  await vi.advanceTimersByTimeAsync(
    RESUME_WINDOW_MS - CLOSE_TIMEOUT_MS - STORE_TIMEOUT_MS - longestWayBackMs,
  );
  expect(harness.closed?.reason).toBe('the executor disconnected');
  for (const node of [before, after]) node.leases.close();
});
