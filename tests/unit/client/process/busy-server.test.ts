import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, expect, test, vi } from 'vitest';
import {
  LOG_MAX_EVENTS,
  MAX_REFUSED_READS,
  QUIET_CHECK_FIRST_MS,
  QUIET_CHECK_MAX_MS,
} from '../../../../src/client/limits.ts';
import { RpcError } from '../../../../src/protocol/errors.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { FakeServer, SILENCE, startedProcess, startParams, wirePage } from '../fake-server.ts';

const busy = () => {
  throw new RpcError(-32001, 'too much to do');
};

afterEach(() => {
  vi.useRealTimers();
});

test('missing events are read again after a busy server refuses', async () => {
  const { server, client, process } = await startedProcess();
  server.answers['process/read'] = busy;
  server.link.output('p', 2);
  await server.untilRequests('process/read', 2);
  server.answers['process/read'] = () => wirePage(3, [1, 2]);
  await waitFor('the events', () => process.revision === 2);
  expect(process.state.failure).toBeNull();
  await client.close();
});

test('a slow reader loses no events when a busy server refuses reads', async () => {
  const { server, client, process } = await startedProcess();
  server.answers['process/read'] = busy;
  const total = LOG_MAX_EVENTS + 3;
  for (let seq = 1; seq <= total; seq++) server.link.output('p', seq);
  await waitFor('all events', () => process.revision === total);
  const step = process.events().next();
  await server.untilRequests('process/read', 1);
  server.answers['process/read'] = () => wirePage(total + 1, [1, 2, 3]);
  expect((await step).value).toMatchObject({ type: 'output', seq: 1 });
  await client.close();
});

test('a process with more unread events than the log keeps delays no other process', async () => {
  const { server, client, process: noisy } = await startedProcess();
  const quiet = await client.backend.start(startParams('quiet'));
  const events = quiet.events();
  const total = 2 * LOG_MAX_EVENTS;
  for (let seq = 1; seq <= total; seq++) server.link.output('p', seq);
  server.link.output('quiet', 1);
  expect((await events.next()).value).toMatchObject({ type: 'output', seq: 1 });
  expect(noisy.revision).toBe(total);
  // A reader of the noisy process waits for evicted events that the server never returns.
  server.answers['process/read'] = () => SILENCE;
  const waiting = noisy.events();
  const step = waiting.next();
  await server.untilRequests('process/read', 1);
  server.link.output('p', total + 1);
  server.link.output('quiet', 2);
  server.link.exited('quiet', 3);
  server.link.closedProcess('quiet', 4);
  const rest = [];
  for await (const event of events) rest.push(event);
  expect(rest).toMatchObject([{ type: 'output', seq: 2 }, { type: 'exited' }, { type: 'closed' }]);
  expect(quiet.state.closed).toBe(true);
  await client.close();
  await step;
});

test('a slow reader continues without the events that the server keeps refusing', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  const { server, client, process } = await startedProcess();
  server.answers['process/read'] = busy;
  const total = LOG_MAX_EVENTS + 3;
  for (let seq = 1; seq <= total; seq++) server.link.output('p', seq);
  while (process.revision < total) await nextTurn();
  const events = process.events();
  let first: unknown = null;
  void events.next().then(({ value }) => {
    first = value;
  });
  await server.untilRequests('process/read', 1);
  // Longer than all pauses together.
  for (let seconds = 0; seconds < 2 ** MAX_REFUSED_READS && first === null; seconds++) {
    await vi.advanceTimersByTimeAsync(1_000);
    for (let turns = 0; turns < 10; turns++) await nextTurn();
  }
  expect(first).toMatchObject({ type: 'lost', fromSeq: 1, toSeq: 3 });
  expect((await events.next()).value).toMatchObject({ type: 'output', seq: 4 });
  await client.close();
});

test('a write that cannot be retried reports that it may have taken effect', async () => {
  const { server, client, process } = await startedProcess();
  server.answers['process/write'] = (_params, link) => {
    server.answers['process/write'] = busy;
    link.break();
    return SILENCE;
  };
  await expect(process.write('x')).rejects.toMatchObject({ kind: 'brokenPipe', retryable: false });
  await expect(process.write('y')).rejects.toMatchObject({ kind: 'overloaded', retryable: true });
  await client.close();
});

test('finds a lost last event of a silent process', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  const { server, client, process } = await startedProcess();
  const pass = async (ms: number) => {
    await vi.advanceTimersByTimeAsync(ms);
    for (let turns = 0; turns < 10; turns++) await nextTurn();
  };
  server.answers['process/read'] = () => wirePage(3, [1, 2]);
  server.link.output('p', 1);
  await pass(QUIET_CHECK_FIRST_MS - 1);
  await pass(1);
  // The process was not silent until now.
  expect(server.requests('process/read')).toEqual([]);
  await pass(QUIET_CHECK_FIRST_MS);
  expect(process.revision).toBe(2);
  expect(server.requests('process/read')[0]!.params).toMatchObject({ afterSeq: 1, waitMs: 0 });
  // The longer the process is silent, the less often the client asks.
  await pass(QUIET_CHECK_MAX_MS * 10);
  expect(server.requests('process/read').length).toBeLessThan(15);
  await client.close();
  expect(vi.getTimerCount()).toBe(0);
});

test('does not check an abandoned process', async () => {
  const server = new FakeServer();
  server.answers['process/start'] = (_params, link) => {
    link.break();
    return SILENCE;
  };
  server.answers['process/terminate'] = (_params, link) => {
    link.output('p', 5);
    link.exited('p', 6);
    return { running: true };
  };
  const client = await server.connect();
  await expect(client.backend.start(startParams())).rejects.toMatchObject({ kind: 'brokenPipe' });
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  while (server.requests('process/terminate').length === 0) {
    await vi.advanceTimersByTimeAsync(100);
    await nextTurn();
  }
  for (let turns = 0; turns < 10; turns++) await nextTurn();
  await vi.advanceTimersByTimeAsync(60_000);
  for (let turns = 0; turns < 10; turns++) await nextTurn();
  expect(server.requests('process/read')).toEqual([]);
  await client.close();
  expect(vi.getTimerCount()).toBe(0);
});

test('does not check a process that failed before its start was answered', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  const server = new FakeServer();
  server.answers['process/start'] = () => SILENCE;
  server.answers['process/read'] = () => {
    throw new RpcError(-32600, 'unknown process');
  };
  const client = await server.connect();
  const starting = client.backend.start(startParams());
  while (server.requests('process/start').length === 0) await nextTurn();
  server.link.output('p', 2);
  while (server.requests('process/read').length === 0) {
    await vi.advanceTimersByTimeAsync(100);
    await nextTurn();
  }
  for (let turns = 0; turns < 10; turns++) await nextTurn();
  server.link.respond(server.requests('process/start')[0]!, { processId: 'p' });
  expect((await starting).state.failure).toMatchObject({ kind: 'protocol' });
  await client.close();
  expect(vi.getTimerCount()).toBe(0);
});

test('does not check a process that failed to start, even after events of another with the same id', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  const server = new FakeServer();
  server.answers['process/start'] = (_params, link) => {
    link.output('p', 1);
    link.exited('p', 2);
    throw new RpcError(-32600, 'process id is in use');
  };
  const client = await server.connect();
  await expect(client.backend.start(startParams())).rejects.toMatchObject({ kind: 'invalidInput' });
  expect(vi.getTimerCount()).toBe(0);
  await client.close();
});
