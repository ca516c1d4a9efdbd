import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import type { ProcessEvent } from '../../../src/client/backend.ts';
import { LOG_MAX_EVENTS, MAX_UNANSWERED_WRITES, REORDER_MAX_EVENTS } from '../../../src/client/limits.ts';
import { RpcError } from '../../../src/protocol/errors.ts';
import { waitFor } from '../../support/wait-for.ts';
import { FakeServer, SILENCE, wirePage } from './fake-server.ts';

const params = (processId = 'p') => ({ processId, argv: ['x'], cwd: 'file:///', env: {}, tty: false });
const kind = (expected: string, rest: Record<string, unknown> = {}) =>
  expect.objectContaining({ name: 'ClientError', kind: expected, ...rest });

async function started() {
  const server = new FakeServer();
  const client = await server.connect();
  const process = await client.backend.start(params());
  return { server, client, process };
}

/** An event as short text. */
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

describe('a start', () => {
  test('is followed from before its answer', async () => {
    const server = new FakeServer();
    server.answers['process/start'] = (_params, link) => {
      link.output('p', 1, 'early');
      link.exited('p', 2);
      link.closedProcess('p', 3);
      return { processId: 'p', sandboxType: 'linuxSeccomp' };
    };
    const client = await server.connect();
    const process = await client.backend.start(params());
    expect(process.sandboxType).toBe('linuxSeccomp');
    expect(await all(process.events())).toEqual(['1:early', 'exited 2', 'closed 3']);
    expect(process.state).toEqual({
      exited: true,
      exitCode: 0,
      closed: true,
      sandboxDenied: false,
      failure: null,
    });
    await client.close();
  });

  test('that is refused leaves the id free', async () => {
    const server = new FakeServer();
    const start = server.answers['process/start']!;
    server.answers['process/start'] = () => {
      throw new RpcError(-32603, 'no such program');
    };
    const client = await server.connect();
    await expect(client.backend.start(params())).rejects.toEqual(kind('server', { code: -32603 }));
    server.answers['process/start'] = start;
    await client.backend.start(params());
    await expect(client.backend.start(params())).rejects.toEqual(kind('invalidInput'));
    expect(server.requests('process/start')).toHaveLength(2);
    await client.close();
  });

  test('whose caller gave up is undone when it succeeds', async () => {
    const server = new FakeServer();
    server.answers['process/start'] = () => SILENCE;
    const client = await server.connect();
    await expect(client.backend.start(params(), { timeoutMs: 10 })).rejects.toEqual(kind('timeout'));
    expect(server.requests('process/terminate')).toEqual([]);
    server.link.respond(server.requests('process/start')[0]!, { processId: 'p' });
    const [terminate] = await server.untilRequests('process/terminate', 1);
    expect(terminate!.params).toEqual({ processId: 'p' });
    await waitFor('the id to be free', async () => {
      server.answers['process/start'] = () => ({ processId: 'p' });
      return client.backend.start(params()).catch(() => null);
    });
    await client.close();
  });

  test('whose caller gave up before it was sent is not sent', async () => {
    const server = new FakeServer();
    const client = await server.connect();
    await expect(client.backend.start(params(), { signal: AbortSignal.abort() })).rejects.toEqual(
      kind('aborted'),
    );
    expect(server.requests('process/start')).toEqual([]);
    await client.close();
  });

  test('whose answer is lost is not repeated but undone', async () => {
    const server = new FakeServer();
    server.answers['process/start'] = (_params, link) => {
      link.break();
      return SILENCE;
    };
    const client = await server.connect();
    await expect(client.backend.start(params())).rejects.toEqual(kind('brokenPipe'));
    const [terminate] = await server.untilRequests('process/terminate', 1);
    expect(terminate!.params).toEqual({ processId: 'p' });
    expect(server.requests('process/start')).toHaveLength(1);
    expect(server.requests('process/read')).toEqual([]);
    await client.close();
  });

  test('waits for a recovery', async () => {
    const server = new FakeServer();
    const client = await server.connect();
    server.link.break();
    const process = await client.backend.start(params());
    expect(server.links).toHaveLength(2);
    expect(process.processId).toBe('p');
    await client.close();
  });
});

describe('events', () => {
  test('come out in order and once, for each reader and at any time', async () => {
    const { server, client, process } = await started();
    const reading = all(process.events());
    for (const seq of [2, 1, 4, 2, 3, 3]) server.link.output('p', seq);
    server.link.output('somebody else', 1);
    server.link.closedProcess('p', 7);
    server.link.exited('p', 5, 9);
    server.link.output('p', 6);
    const expected = ['1:<1>', '2:<2>', '3:<3>', '4:<4>', 'exited 5', '6:<6>', 'closed 7'];
    expect(await reading).toEqual(expected);
    expect(await all(process.events())).toEqual(expected);
    expect(process.wake).toBe(7);
    expect(process.state).toMatchObject({ exitCode: 9, closed: true });
    expect(server.requests('process/read')).toEqual([]);
    await client.close();
  });

  test('wake those who listen, until they stop', async () => {
    const { server, client, process } = await started();
    const wakes: number[] = [];
    const stop = process.onWake(() => wakes.push(process.wake));
    server.link.output('p', 1);
    server.link.output('p', 2);
    await waitFor('two wakes', () => wakes.length === 2);
    stop();
    server.link.output('p', 3);
    await waitFor('the third', () => process.wake === 3);
    expect(wakes).toEqual([1, 2]);
    await client.close();
  });

  test('that do not come are read from the server', async () => {
    const { server, client, process } = await started();
    server.answers['process/read'] = ({ afterSeq }) => wirePage(5, afterSeq === 1 ? [2, 3, 4] : []);
    server.link.output('p', 1);
    server.link.output('p', 4);
    await waitFor('the missing events', () => process.wake === 4);
    expect(server.requests('process/read')[0]!.params).toEqual({
      processId: 'p',
      afterSeq: 1,
      maxBytes: null,
      waitMs: 0,
    });
    await client.close();
  });

  test('that are too many to wait are read at once, and none is lost or repeated', async () => {
    const { server, client, process } = await started();
    const count = REORDER_MAX_EVENTS + 40;
    const seqs = Array.from({ length: count }, (_, index) => index + 1);
    // The first page ends before the last events that there was no room for.
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

  test('that the server has evicted are lost, and the process goes on', async () => {
    const { server, client, process } = await started();
    server.answers['process/read'] = () => wirePage(9, [7, 8]);
    const reading = all(process.events());
    server.link.output('p', 1);
    server.link.output('p', 8);
    await waitFor('the catch-up', () => process.wake === 8);
    server.link.exited('p', 9);
    server.link.closedProcess('p', 10);
    expect(await reading).toEqual(['1:<1>', 'lost 2-6 null', '7:<7>', '8:<8>', 'exited 9', 'closed 10']);
    expect(server.requests('process/terminate')).toEqual([]);
    await client.close();
  });

  test('at the end that do not come are read from the server, but nothing is given up for them', async () => {
    const { server, client, process } = await started();
    const pages = [
      // The rest is still on its way: it is not lost although the server has evicted it.
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

  test('that are lost are counted when a snapshot fits', async () => {
    const server = new FakeServer();
    (server.environmentInfo as { capabilities: Record<string, boolean> }).capabilities.processSnapshot = true;
    const client = await server.connect();
    const process = await client.backend.start(params());
    let nextSeq = 9;
    // The first page is older than the snapshot; what it had is evicted when the next is made.
    server.answers['process/read'] = () => {
      nextSeq++;
      return wirePage(nextSeq, nextSeq === 10 ? [7, 8, 9] : [9, nextSeq - 1]);
    };
    server.answers['process/snapshot'] = () => ({
      stdout: Buffer.from('x'.repeat(100)).toString('base64'),
      stderr: '',
      terminal: '',
      omittedBytes: { stdout: 50, stderr: 0, terminal: 0 },
      nextSeq: 12,
    });
    server.link.output('p', 1);
    server.link.output('p', 8);
    await waitFor('the catch-up', () => process.wake === 11);
    server.link.exited('p', 12);
    server.link.closedProcess('p', 13);
    expect(await all(process.events())).toEqual([
      '1:<1>',
      // 150 bytes in all; those of 1, 7, 8, 9 have three, those of 10 and 11 four.
      `lost 2-6 ${150 - 3 - 9 - 8}`,
      '7:<7>',
      '8:<8>',
      '9:<9>',
      '10:<10>',
      '11:<11>',
      'exited 12',
      'closed 13',
    ]);
    await client.close();
  });

  test('of a reader that is too slow are read from the server', async () => {
    const { server, client, process } = await started();
    const reader = process.events();
    const total = LOG_MAX_EVENTS + 100;
    server.answers['process/read'] = ({ afterSeq }) =>
      wirePage(
        total + 1,
        Array.from({ length: total - afterSeq }, (_, index) => afterSeq + 1 + index),
      );
    for (let seq = 1; seq <= total; seq++) server.link.output('p', seq);
    await waitFor('all events', () => process.wake === total);
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
  ])('with %s end the connection, and another one is opened', async (_name, message) => {
    const { server, client, process } = await started();
    server.link.send(message);
    await waitFor('another connection', () => server.links.length === 2 && client.state === 'connected');
    expect(server.links[0]!.closed).toMatchObject({ code: 1002 });
    server.answers['process/list'] = () => ({ processes: [] });
    expect(await client.call('process/list', {})).toEqual({ processes: [] });
    expect(process.state.failure).toBeNull();
    await client.close();
  });

  test('of a server that sends nothing but nonsense end the client', async () => {
    const { server, client, process } = await started();
    const initialize = server.answers.initialize!;
    server.answers.initialize = (value, link) => {
      setImmediate(() => setImmediate(() => link.send('nonsense')));
      return initialize(value, link);
    };
    server.answers['process/list'] = () => SILENCE;
    const call = client.call('process/list', {});
    const outcome = Promise.allSettled([call]);
    server.link.send('nonsense');
    await waitFor('the end', () => client.state === 'failed');
    expect(client.failure).toEqual(kind('protocol', { hint: expect.any(String) }));
    expect(await outcome).toEqual([{ status: 'rejected', reason: kind('protocol') }]);
    expect(process.state.failure).toEqual(kind('protocol'));
    expect(server.links.length).toBeLessThanOrEqual(6);
  });
});

describe('reading', () => {
  test('asks the server, and never to wait', async () => {
    const { server, client, process } = await started();
    server.answers['process/read'] = () =>
      wirePage(3, [2], { exited: true, exitCode: 4, closed: true, sandboxDenied: true });
    const page = await process.read({ afterSeq: 1, maxBytes: 10 });
    expect(page).toEqual({
      chunks: [{ seq: 2, stream: 'stdout', bytes: Buffer.from('<2>') }],
      nextSeq: 3,
      exited: true,
      exitCode: 4,
      closed: true,
      failure: null,
      sandboxDenied: true,
    });
    expect(server.requests('process/read')[0]!.params).toEqual({
      processId: 'p',
      afterSeq: 1,
      maxBytes: 10,
      waitMs: 0,
    });
    await client.close();
  });

  test('waits on this side until something is new, or the time is up', async () => {
    const { server, client, process } = await started();
    server.link.output('p', 1);
    await waitFor('the first event', () => process.wake === 1);
    const news = process.read({ afterSeq: 1, waitMs: 60_000 });
    await nextTurn();
    expect(server.requests('process/read')).toEqual([]);
    server.link.output('p', 2);
    await news;
    await process.read({ afterSeq: 5, waitMs: 10 });
    await process.read({ afterSeq: 0, waitMs: 60_000 });
    expect(server.requests('process/read').map((request) => request.params.waitMs)).toEqual([0, 0, 0]);
    await client.close();
  });

  test('stops at the end of a process, a deadline and a signal', async () => {
    const { server, client, process } = await started();
    const options = { afterSeq: 9, waitMs: 60_000 };
    await expect(process.read({ ...options, timeoutMs: 10 })).rejects.toEqual(kind('timeout'));
    const aborter = new AbortController();
    const aborted = process.read({ ...options, signal: aborter.signal });
    aborter.abort();
    await expect(aborted).rejects.toEqual(kind('aborted'));
    const ended = process.read(options);
    server.link.exited('p', 1);
    server.link.closedProcess('p', 2);
    await ended;
    await client.close();
  });

  test('refuses pages that make no sense', async () => {
    const { server, client, process } = await started();
    for (const bad of [null, {}, { chunks: [{}], nextSeq: 2 }, { chunks: [], nextSeq: -1 }]) {
      server.answers['process/read'] = () => (bad === null ? 7 : bad);
      await expect(process.read()).rejects.toEqual(kind('protocol'));
    }
    await client.close();
  });

  test('of a process that cannot be followed any more needs no server', async () => {
    const { server, client, process } = await started();
    server.link.output('p', 1);
    await waitFor('the first event', () => process.wake === 1);
    const waiting = process.read({ afterSeq: 1, waitMs: 60_000 });
    await client.close();
    const page = { chunks: [], nextSeq: 3, exited: true, exitCode: null, closed: true, sandboxDenied: false };
    expect(await waiting).toEqual({ ...page, failure: 'the client is closed' });
    expect(await process.read()).toEqual({ ...page, failure: 'the client is closed' });
    expect(server.requests('process/read')).toEqual([]);
  });
});

describe('writing', () => {
  test('numbers the writes and keeps their order', async () => {
    const { server, client, process } = await started();
    await Promise.all([
      process.write('a'),
      process.write(Buffer.from('b')),
      process.closeStdin(),
      process.write(''),
    ]);
    expect(
      server.links[0]!.requests.slice(2).map(({ method, params: sent }) => [
        method,
        sent.writeId,
        sent.chunk,
      ]),
    ).toEqual([
      ['process/write', '1', 'YQ=='],
      ['process/write', '2', 'Yg=='],
      ['process/closeStdin', undefined, undefined],
      ['process/write', '3', ''],
    ]);
    await client.close();
  });

  test('repeats what was not answered, in order, under the same ids and before anything newer', async () => {
    const { server, client, process } = await started();
    server.answers['process/write'] = ({ writeId }) => (writeId === '1' ? { status: 'accepted' } : SILENCE);
    server.answers['process/closeStdin'] = () => SILENCE;
    const failing = client.call('fs/remove', { path: 'file:///x' });
    const first = [process.write('1'), process.write('2'), process.write('3'), process.closeStdin()];
    // Who learns of the loss through another call and writes at once must not overtake.
    const late = failing.catch(() => process.write('4'));
    await server.untilRequests('process/closeStdin', 1);
    server.answers['process/write'] = ({ writeId }) => ({
      status: writeId === '3' ? 'stdinClosed' : 'accepted',
    });
    server.answers['process/closeStdin'] = () => ({ status: 'alreadyClosed' });
    server.link.break();
    expect(await Promise.all([...first, late])).toEqual([
      'accepted',
      'accepted',
      'stdinClosed',
      true,
      'accepted',
    ]);
    const repeated = server.links[1]!.requests.filter(({ method }) => method !== 'process/read').slice(1);
    expect(repeated.map(({ method, params: sent }) => sent.writeId ?? method)).toEqual([
      '2',
      '3',
      'process/closeStdin',
      '4',
    ]);
    expect(await process.closeStdin()).toBe(false);
    await client.close();
  });

  test('is limited, and can be given up', async () => {
    const { server, client, process } = await started();
    server.answers['process/write'] = () => SILENCE;
    const aborter = new AbortController();
    const writes = Array.from({ length: MAX_UNANSWERED_WRITES }, () =>
      process.write('x', { signal: aborter.signal }),
    );
    const outcomes = Promise.allSettled(writes);
    await expect(process.write('y')).rejects.toEqual(kind('overloaded', { retryable: true }));
    aborter.abort();
    expect((await outcomes).every((outcome) => outcome.status === 'rejected')).toBe(true);
    server.answers['process/write'] = () => ({ status: 'accepted' });
    expect(await process.write('z')).toBe('accepted');
    await expect(process.write('z', { timeoutMs: 0, signal: AbortSignal.abort() })).rejects.toEqual(
      kind('aborted'),
    );
    await client.close();
  });

  test('is not repeated when it may be what ended the connection', async () => {
    const { server, client, process } = await started();
    server.answers['process/write'] = (_params, link) => {
      link.transport.close({ code: 1009, reason: 'too big' });
      return SILENCE;
    };
    await expect(process.write('x')).rejects.toEqual(
      kind('brokenPipe', { message: expect.stringContaining('too big') }),
    );
    expect(server.requests('process/write')).toHaveLength(1);
    await waitFor('the recovery', () => client.state === 'connected');
    server.answers['process/write'] = (_params, link) => {
      link.send({ id: -1, error: { code: -32600, message: 'malformed' } });
      return SILENCE;
    };
    await expect(process.write('y')).rejects.toEqual(
      kind('brokenPipe', { message: expect.stringContaining('malformed') }),
    );
    await client.close();
  });

  test('gives up a write that ends every connection', async () => {
    const { server, client, process } = await started();
    server.answers['process/write'] = (_params, link) => {
      link.break();
      return SILENCE;
    };
    await expect(process.write('x')).rejects.toEqual(kind('brokenPipe'));
    expect(server.requests('process/write').length).toBeGreaterThan(2);
    await client.close();
  }, 30_000);
});

describe('what a server lacks', () => {
  test('is told with what to do', async () => {
    const server = new FakeServer();
    server.environmentInfo = { capabilities: { processResize: 'yes' } };
    server.answers['process/signal'] = () => ({});
    const client = await server.connect();
    const process = await client.backend.start(params());
    const unsupported = kind('unsupported', { hint: expect.any(String) });
    await expect(process.closeStdin()).rejects.toEqual(unsupported);
    await expect(process.resize(1, 2)).rejects.toEqual(unsupported);
    await expect(process.signal('SIGTERM')).rejects.toEqual(unsupported);
    await expect(process.terminate({ type: 'graceful', timeoutMs: 5 })).rejects.toEqual(unsupported);
    await process.signal('interrupt');
    expect(await process.terminate({ type: 'force' })).toBe(true);
    expect(server.requests('process/terminate')[0]!.params).toEqual({ processId: 'p' });
    await client.close();
  });
});

describe('ending', () => {
  test('of a closed process needs no server', async () => {
    const { server, client, process } = await started();
    expect(await process.terminate({ type: 'graceful', timeoutMs: 5 })).toBe(true);
    expect(server.requests('process/terminate')[0]!.params).toEqual({
      processId: 'p',
      mode: { type: 'graceful', timeoutMs: 5 },
    });
    server.link.exited('p', 1);
    server.link.closedProcess('p', 2);
    await waitFor('the end', () => process.state.closed);
    expect(await process.terminate()).toBe(false);
    expect(server.requests('process/terminate')).toHaveLength(1);
    await client.close();
  });

  test.each(['signal', 'terminate'] as const)(
    '%s is not repeated when its answer is lost',
    async (operation) => {
      const { server, client, process } = await started();
      server.answers[`process/${operation}`] = (_params, link) => {
        link.break();
        return SILENCE;
      };
      const call = operation === 'signal' ? process.signal('interrupt') : process.terminate();
      await expect(call).rejects.toEqual(kind('brokenPipe'));
      await waitFor('the recovery', () => client.state === 'connected');
      await delay(1);
      expect(server.requests(`process/${operation}`)).toHaveLength(1);
      await client.close();
    },
  );
});
