import { getEventListeners } from 'node:events';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { CallLimit } from '../../../../src/client/connection/call-limit.ts';
import { MAX_TIMER_MS } from '../../../../src/client/limits.ts';
import { FakeServer, SILENCE, startParams, wirePage } from '../fake-server.ts';

const warnings: Error[] = [];
const remember = (warning: Error) => warnings.push(warning);
beforeEach(() => {
  warnings.length = 0;
  process.on('warning', remember);
});
afterEach(() => {
  process.off('warning', remember);
});

test('one signal serves any number of calls and readers, and keeps no listeners', async () => {
  const server = new FakeServer();
  const client = await server.connect();
  const started = await client.backend.start(startParams());
  const { signal } = new AbortController();
  const readers = Array.from({ length: 15 }, () => started.events({ signal }));
  const steps = Promise.all(readers.map((reader) => reader.next()));
  await Promise.all(Array.from({ length: 15 }, () => started.write('x', { signal })));
  await Promise.all(Array.from({ length: 15 }, () => client.call('environment/status', {}, { signal })));
  server.link.output('p', 1);
  await steps;
  expect(getEventListeners(signal, 'abort')).toEqual([]);
  expect(warnings).toEqual([]);
  await client.close();
});

test('one signal aborts everything that waits for it', async () => {
  const server = new FakeServer();
  server.answers['process/write'] = () => SILENCE;
  const client = await server.connect();
  const started = await client.backend.start(startParams());
  const aborter = new AbortController();
  const { signal } = aborter;
  const outcomes = Promise.allSettled([
    ...Array.from({ length: 12 }, () => started.write('x', { signal })),
    ...Array.from({ length: 12 }, () => started.events({ signal }).next()),
  ]);
  await server.untilRequests('process/write', 12);
  aborter.abort();
  for (const outcome of await outcomes) {
    expect(outcome).toMatchObject({ status: 'rejected', reason: { name: 'ClientError', kind: 'aborted' } });
  }
  expect(getEventListeners(signal, 'abort')).toEqual([]);
  expect(warnings).toEqual([]);
  await client.close();
});

test.each([Number.POSITIVE_INFINITY, MAX_TIMER_MS + 1, MAX_TIMER_MS])(
  'a timeout of %d ms does not fire immediately',
  async (ms) => {
    const limit = new CallLimit('work', { timeoutMs: ms });
    const later = new Promise((resolve) => setTimeout(resolve, 20, 'done'));
    expect(await limit.race(later)).toBe('done');
    limit.end();
    expect(warnings).toEqual([]);
  },
);

test('a read may wait without a limit', async () => {
  const server = new FakeServer();
  server.answers['process/read'] = () => wirePage(2, [1]);
  const client = await server.connect();
  const started = await client.backend.start(startParams());
  const reading = started.read({ waitMs: Number.POSITIVE_INFINITY });
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(server.requests('process/read')).toEqual([]);
  server.link.output('p', 1);
  expect((await reading).chunks).toHaveLength(1);
  expect(warnings).toEqual([]);
  await client.close();
});
