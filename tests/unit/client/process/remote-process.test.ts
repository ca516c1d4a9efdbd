import { describe, expect, test } from 'vitest';
import type { ProcessEvent } from '../../../../src/client/backend.ts';
import { CATCH_UP_PAGES, LOG_MAX_EVENTS, REORDER_MAX_EVENTS } from '../../../../src/client/limits.ts';
import { RpcError } from '../../../../src/protocol/errors.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { FakeServer, SILENCE, startedProcess, startParams, wirePage } from '../fake-server.ts';

const kind = (expected: string, rest: Record<string, unknown> = {}) =>
  expect.objectContaining({ name: 'ClientError', kind: expected, ...rest });

/** A short text for an event. */
function short(event: ProcessEvent): string {
  if (event.type === 'output') return `${event.seq}:${Buffer.from(event.bytes)}`;
  if (event.type === 'lost') return `lost ${event.fromSeq}-${event.toSeq} ${event.bytes}`;
  return event.type === 'failed' ? `failed ${event.error.kind}` : `${event.type} ${event.seq}`;
}

async function all(events: AsyncIterable<ProcessEvent>): Promise<string[]> {
  const list: string[] = [];
  for await (const event of events) list.push(short(event));
  return list;
}

describe('start', () => {
  test('receives events before it is answered', async () => {
    const server = new FakeServer();
    server.answers['process/start'] = (_params, link) => {
      link.output('p', 1, 'early');
      link.exited('p', 2);
      link.closedProcess('p', 3);
      return { processId: 'p', sandboxType: 'linuxSeccomp' };
    };
    const client = await server.connect();
    const process = await client.backend.start(startParams());
    expect(process.sandboxType).toBe('linuxSeccomp');
    expect(await all(process.events())).toEqual(['1:early', 'exited 2', 'closed 3']);
    expect(process.state).toEqual({
      ...{ exited: true, exitCode: 0, signal: null, timedOut: false, reason: null, closed: true },
      ...{ sandboxDenied: false, failure: null },
    });
    await client.close();
  });

  test('frees the id when the server refuses', async () => {
    const server = new FakeServer();
    const start = server.answers['process/start']!;
    server.answers['process/start'] = () => {
      throw new RpcError(-32603, 'no such program');
    };
    const client = await server.connect();
    await expect(client.backend.start(startParams())).rejects.toEqual(kind('server', { code: -32603 }));
    server.answers['process/start'] = start;
    await client.backend.start(startParams());
    await expect(client.backend.start(startParams())).rejects.toEqual(kind('invalidInput'));
    expect(server.requests('process/start')).toHaveLength(2);
    await client.close();
  });

  test('terminates the process when it succeeds after the caller gave up', async () => {
    const server = new FakeServer();
    server.answers['process/start'] = () => SILENCE;
    const client = await server.connect();
    await expect(client.backend.start(startParams(), { timeoutMs: 10 })).rejects.toEqual(kind('timeout'));
    expect(server.requests('process/terminate')).toEqual([]);
    server.link.respond(server.requests('process/start')[0]!, { processId: 'p' });
    const [terminate] = await server.untilRequests('process/terminate', 1);
    expect(terminate!.params).toEqual({ processId: 'p' });
    await waitFor('the id to be free', async () => {
      server.answers['process/start'] = () => ({ processId: 'p' });
      return client.backend.start(startParams()).catch(() => null);
    });
    await client.close();
  });

  test('is not sent when the caller gave up before', async () => {
    const server = new FakeServer();
    const client = await server.connect();
    await expect(client.backend.start(startParams(), { signal: AbortSignal.abort() })).rejects.toEqual(
      kind('aborted'),
    );
    expect(server.requests('process/start')).toEqual([]);
    await client.close();
  });

  test('terminates the process instead of retrying when the answer is lost', async () => {
    const server = new FakeServer();
    server.answers['process/start'] = (_params, link) => {
      link.break();
      return SILENCE;
    };
    const client = await server.connect();
    await expect(client.backend.start(startParams())).rejects.toEqual(kind('brokenPipe'));
    const [terminate] = await server.untilRequests('process/terminate', 1);
    expect(terminate!.params).toEqual({ processId: 'p' });
    expect(server.requests('process/start')).toHaveLength(1);
    expect(server.requests('process/read')).toEqual([]);
    await client.close();
  });

  test('is ended by a close that follows, when its answer was lost', async () => {
    const server = new FakeServer();
    server.answers['process/start'] = (_params, link) => {
      link.break();
      return SILENCE;
    };
    const client = await server.connect();
    await expect(client.backend.start(startParams())).rejects.toEqual(kind('brokenPipe'));
    await client.close();
    expect(server.requests('process/terminate')[0]!.params).toEqual({ processId: 'p' });
    expect(client.state).toBe('closed');
  });

  test('is ended by a close that follows, when the caller gave up and no answer has arrived', async () => {
    const server = new FakeServer();
    server.answers['process/start'] = () => SILENCE;
    const client = await server.connect();
    await expect(client.backend.start(startParams(), { timeoutMs: 10 })).rejects.toEqual(kind('timeout'));
    const closing = client.close();
    await server.untilRequests('process/terminate', 1);
    server.link.respond(server.requests('process/start')[0]!, { processId: 'p' });
    // A server may ignore the end of a process that it has not started yet.
    await server.untilRequests('process/terminate', 2);
    await closing;
  });

  test('waits during a recovery', async () => {
    const server = new FakeServer();
    const client = await server.connect();
    server.link.break();
    const process = await client.backend.start(startParams());
    expect(server.links).toHaveLength(2);
    expect(process.processId).toBe('p');
    await client.close();
  });
});

describe('events', () => {
  test('are published in order and once, for each reader and at any time', async () => {
    const { server, client, process } = await startedProcess();
    const reading = all(process.events());
    for (const seq of [2, 1, 4, 2, 3, 3]) server.link.output('p', seq);
    server.link.output('another', 1);
    server.link.closedProcess('p', 7);
    server.link.exited('p', 5, 9);
    server.link.output('p', 6);
    const expected = ['1:<1>', '2:<2>', '3:<3>', '4:<4>', 'exited 5', '6:<6>', 'closed 7'];
    expect(await reading).toEqual(expected);
    expect(await all(process.events())).toEqual(expected);
    expect(process.revision).toBe(7);
    expect(process.state).toMatchObject({ exitCode: 9, closed: true });
    expect(server.requests('process/read')).toEqual([]);
    await client.close();
  });

  test('notify listeners until they are removed', async () => {
    const { server, client, process } = await startedProcess();
    const wakes: number[] = [];
    const stop = process.onChange(() => wakes.push(process.revision));
    server.link.output('p', 1);
    server.link.output('p', 2);
    await waitFor('two wakes', () => wakes.length === 2);
    stop();
    server.link.output('p', 3);
    await waitFor('the third', () => process.revision === 3);
    expect(wakes).toEqual([1, 2]);
    await client.close();
  });

  test('that do not arrive are read from the server', async () => {
    const { server, client, process } = await startedProcess();
    server.answers['process/read'] = ({ afterSeq }) => wirePage(5, afterSeq === 1 ? [2, 3, 4] : []);
    server.link.output('p', 1);
    server.link.output('p', 4);
    await waitFor('the missing events', () => process.revision === 4);
    expect(server.requests('process/read')[0]!.params).toEqual({
      processId: 'p',
      afterSeq: 1,
      maxBytes: null,
      waitMs: 0,
    });
    await client.close();
  });

  test('that exceed the buffer are read immediately, and none is lost or repeated', async () => {
    const { server, client, process } = await startedProcess();
    const count = REORDER_MAX_EVENTS + 40;
    const seqs = Array.from({ length: count }, (_, index) => index + 1);
    // The first page ends before the last events that did not fit into the buffer.
    server.answers['process/read'] = ({ afterSeq }) =>
      afterSeq === 0
        ? wirePage(count + 1, seqs)
        : wirePage(count + 3, [], { exited: true, exitCode: 0, closed: true });
    for (let seq = 2; seq <= count; seq++) server.link.output('p', seq);
    server.link.exited('p', count + 1);
    server.link.closedProcess('p', count + 2);
    const events = await all(process.events());
    expect(events).toHaveLength(count + 2);
    expect(events.slice(0, 2)).toEqual(['1:<1>', '2:<2>']);
    expect(server.requests('process/read')).toHaveLength(2);
    await client.close();
  });

  test('that the server has evicted are lost, and the process continues', async () => {
    const { server, client, process } = await startedProcess();
    server.answers['process/read'] = () => wirePage(9, [7, 8]);
    const reading = all(process.events());
    server.link.output('p', 1);
    server.link.output('p', 8);
    await waitFor('the catch-up', () => process.revision === 8);
    server.link.exited('p', 9);
    server.link.closedProcess('p', 10);
    expect(await reading).toEqual(['1:<1>', 'lost 2-6 null', '7:<7>', '8:<8>', 'exited 9', 'closed 10']);
    expect(server.requests('process/terminate')).toEqual([]);
    await client.close();
  });

  test('missing at the end are read from the server without reporting others as lost', async () => {
    const { server, client, process } = await startedProcess();
    const pages = [
      // The rest is still on its way: it is not lost, although the server has evicted it.
      wirePage(9, [8], { exited: true, exitCode: 0 }),
      wirePage(5, [3], { exited: true, exitCode: 0, closed: true }),
    ];
    server.answers['process/read'] = () => pages.shift();
    server.link.output('p', 1);
    server.link.exited('p', 2);
    expect(await all(process.events())).toEqual(['1:<1>', 'exited 2', '3:<3>', 'closed 4']);
    expect(server.requests('process/read')).toHaveLength(2);
    await client.close();
  });

  test('that do not fit into one page are read in several', async () => {
    const { server, client, process } = await startedProcess();
    server.answers['process/read'] = ({ afterSeq }) =>
      afterSeq < 8
        ? wirePage(afterSeq + 3, [afterSeq + 1, afterSeq + 2])
        : wirePage(11, [], { exited: true, exitCode: 0, closed: true });
    server.link.break();
    expect(await all(process.events())).toEqual([
      ...[1, 2, 3, 4, 5, 6, 7, 8].map((seq) => `${seq}:<${seq}>`),
      'exited 9',
      'closed 10',
    ]);
    expect(server.requests('process/read')).toHaveLength(5);
    await client.close();
  });

  test('are read in a limited number of pages when more keep arriving', async () => {
    const { server, client, process } = await startedProcess();
    server.answers['process/read'] = ({ afterSeq }) => wirePage(afterSeq + 2, [afterSeq + 1]);
    server.link.break();
    await waitFor('the recovery', () => process.revision > 0 && client.state === 'connected');
    expect(process.revision).toBe(CATCH_UP_PAGES);
    expect(server.requests('process/read')).toHaveLength(CATCH_UP_PAGES);
    await client.close();
  });

  test('that are lost have a size when the server reports positions', async () => {
    const server = new FakeServer();
    const { capabilities } = server.environmentInfo as { capabilities: Record<string, boolean> };
    capabilities.processReadPosition = true;
    const client = await server.connect();
    const process = await client.backend.start(startParams());
    server.answers['process/read'] = () => ({
      ...wirePage(9, [7, 8]),
      position: { streamBytes: { stdout: 150, stderr: 0, pty: 0 }, exitSeq: null },
    });
    server.link.output('p', 1);
    server.link.output('p', 8);
    await waitFor('the catch-up', () => process.revision === 8);
    expect(server.requests('process/read')[0]!.params).toMatchObject({ withPosition: true });
    server.link.exited('p', 9);
    server.link.closedProcess('p', 10);
    // Chunks 1, 7 and 8 have three bytes.
    const expected = ['1:<1>', `lost 2-6 ${150 - 9}`, '7:<7>', '8:<8>', 'exited 9', 'closed 10'];
    expect(await all(process.events())).toEqual(expected);
    await client.close();
  });

  test('are not complete with a page that has a byte limit and ends with output', async () => {
    const { server, client, process } = await startedProcess();
    const end = { exited: true, exitCode: 0, closed: true };
    server.answers['process/read'] = ({ afterSeq }) =>
      afterSeq < 2 ? wirePage(3, [1, 2], end) : wirePage(5, [], end);
    expect(await process.read({ maxBytes: 6 })).toMatchObject({ nextSeq: 3, closed: false });
    expect(await process.read({ afterSeq: 2, maxBytes: 6 })).toMatchObject({ nextSeq: 5, closed: true });
    await client.close();
  });

  test('are read in several pages for a slow reader', async () => {
    const { server, client, process } = await startedProcess();
    const reader = process.events();
    const total = LOG_MAX_EVENTS + 100;
    server.answers['process/read'] = ({ afterSeq }) => wirePage(afterSeq + 3, [afterSeq + 1, afterSeq + 2]);
    for (let seq = 1; seq <= total; seq++) server.link.output('p', seq);
    await waitFor('all events', () => process.revision === total);
    for (let seq = 1; seq <= total; seq++) expect((await reader.next()).value).toMatchObject({ seq });
    await client.close();
  });

  test('are read from the server for a slow reader', async () => {
    const { server, client, process } = await startedProcess();
    const reader = process.events();
    const total = LOG_MAX_EVENTS + 100;
    server.answers['process/read'] = ({ afterSeq }) =>
      wirePage(
        total + 1,
        Array.from({ length: total - afterSeq }, (_, index) => afterSeq + 1 + index),
      );
    for (let seq = 1; seq <= total; seq++) server.link.output('p', seq);
    await waitFor('all events', () => process.revision === total);
    for (let seq = 1; seq <= total; seq++) expect((await reader.next()).value).toMatchObject({ seq });
    await client.close();
  });

  test.each([
    ['no number', { method: 'process/output', params: { processId: 'p', stream: 'stdout', chunk: '' } }],
    [
      'a strange stream',
      { method: 'process/output', params: { processId: 'p', seq: 1, stream: 'x', chunk: '' } },
    ],
    [
      'bad base64',
      { method: 'process/output', params: { processId: 'p', seq: 1, stream: 'pty', chunk: '?' } },
    ],
    ['no exit code', { method: 'process/exited', params: { processId: 'p', seq: 1 } }],
    ['no process', { method: 'process/closed', params: { seq: 1 } }],
    ['no params', { method: 'process/closed' }],
    ['no JSON at all', '{"method":'],
    ['a request with a strange id', { id: 'x', method: 'network/policyRequest' }],
  ])('with %s end the connection, and the client reconnects', async (_name, message) => {
    const { server, client, process } = await startedProcess();
    server.link.send(message);
    await waitFor('another connection', () => server.links.length === 2 && client.state === 'connected');
    expect(server.links[0]!.closed).toMatchObject({ code: 1002 });
    server.answers['process/list'] = () => ({ processes: [] });
    expect(await client.call('process/list', {})).toEqual({ processes: [] });
    expect(process.state.failure).toBeNull();
    await client.close();
  });

  test('of a server that only sends invalid messages fail the client', async () => {
    const { server, client, process } = await startedProcess();
    const initialize = server.answers.initialize!;
    server.answers.initialize = (value, link) => {
      setImmediate(() => setImmediate(() => link.send('not JSON')));
      return initialize(value, link);
    };
    server.answers['process/list'] = () => SILENCE;
    const call = client.call('process/list', {});
    const outcome = Promise.allSettled([call]);
    server.link.send('not JSON');
    await waitFor('the end', () => client.state === 'failed');
    expect(client.failure).toEqual(kind('protocol', { hint: expect.any(String) }));
    expect(await outcome).toEqual([{ status: 'rejected', reason: kind('protocol') }]);
    expect(process.state.failure).toEqual(kind('protocol'));
    expect(server.links.length).toBeLessThanOrEqual(6);
  });
});
