import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { MAX_RETRIES, MAX_UNANSWERED_WRITES } from '../../../../src/client/limits.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { FakeServer, SILENCE, startedProcess, startParams, wirePage } from '../fake-server.ts';

const kind = (expected: string, rest: Record<string, unknown> = {}) =>
  expect.objectContaining({ name: 'ClientError', kind: expected, ...rest });

describe('read', () => {
  test('never asks the server to wait', async () => {
    const { server, client, process } = await startedProcess();
    server.answers['process/read'] = () =>
      wirePage(5, [2], { exited: true, exitCode: 4, closed: true, sandboxDenied: true });
    const page = await process.read({ afterSeq: 1, maxBytes: 10 });
    expect(page).toEqual({
      chunks: [{ seq: 2, stream: 'stdout', bytes: Buffer.from('<2>') }],
      nextSeq: 5,
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

  test('waits locally until an event arrives or the time is up', async () => {
    const { server, client, process } = await startedProcess();
    server.link.output('p', 1);
    await waitFor('the first event', () => process.revision === 1);
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

  test('ends with the process, its timeout and its signal', async () => {
    const { server, client, process } = await startedProcess();
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

  test('rejects with a timeout, whatever it waited for', async () => {
    const { server, client, process } = await startedProcess();
    server.answers['process/read'] = () => SILENCE;
    await expect(process.read({ timeoutMs: 10 })).rejects.toEqual(kind('timeout'));
    await client.close();
  });

  test('leaves nothing waiting after an abort', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const { client, process } = await startedProcess();
    const timers = vi.getTimerCount();
    const aborter = new AbortController();
    const reads = [1, 2].map(() => process.read({ waitMs: 60_000, signal: aborter.signal }));
    expect(vi.getTimerCount()).toBe(timers + reads.length);
    aborter.abort();
    await Promise.allSettled(reads);
    expect(vi.getTimerCount()).toBe(timers);
    await client.close();
  });

  test('rejects malformed pages', async () => {
    const { server, client, process } = await startedProcess();
    for (const bad of [null, {}, { chunks: [{}], nextSeq: 2 }, { chunks: [], nextSeq: -1 }]) {
      server.answers['process/read'] = () => (bad === null ? 7 : bad);
      await expect(process.read()).rejects.toEqual(kind('protocol'));
    }
    await client.close();
  });

  test('needs no server for a process that can no longer be followed', async () => {
    const { server, client, process } = await startedProcess();
    server.link.output('p', 1);
    await waitFor('the first event', () => process.revision === 1);
    const waiting = process.read({ afterSeq: 1, waitMs: 60_000 });
    await client.close();
    const page = { chunks: [], nextSeq: 3, exited: true, exitCode: null, closed: true, sandboxDenied: false };
    expect(await waiting).toEqual({ ...page, failure: 'the client is closed' });
    expect(await process.read()).toEqual({ ...page, failure: 'the client is closed' });
    expect(server.requests('process/read')).toEqual([]);
  });
});

describe('write', () => {
  test('numbers the writes and keeps their order', async () => {
    const { server, client, process } = await startedProcess();
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

  test('resends unanswered writes in order, with the same ids and before newer ones', async () => {
    const { server, client, process } = await startedProcess({ pipeStdin: true });
    server.answers['process/write'] = ({ writeId }) => (writeId === '1' ? { status: 'accepted' } : SILENCE);
    server.answers['process/closeStdin'] = () => SILENCE;
    const failing = client.call('fs/remove', { path: 'file:///x' });
    const first = [process.write('1'), process.write('2'), process.write('3'), process.closeStdin()];
    // A caller that learns of the loss through another call and writes immediately must not overtake.
    const late = failing.catch(() => process.write('4'));
    await server.untilRequests('process/closeStdin', 1);
    server.answers['process/write'] = ({ writeId }) => ({
      status: writeId === '3' ? 'stdinClosed' : 'accepted',
    });
    server.answers['process/closeStdin'] = () => ({ status: 'alreadyClosed' });
    server.link.break();
    const outcomes = await Promise.allSettled([...first, late]);
    expect(outcomes.map(({ status }) => status)).toEqual([
      ...['fulfilled', 'fulfilled', 'rejected', 'fulfilled', 'fulfilled'],
    ]);
    expect(outcomes[2]).toMatchObject({ reason: kind('stdinClosed') });
    expect(outcomes[3]).toMatchObject({ value: true });
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

  test('limits unanswered writes, and can be aborted', async () => {
    const { server, client, process } = await startedProcess();
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
    await process.write('z');
    await expect(process.write('z', { timeoutMs: 0, signal: AbortSignal.abort() })).rejects.toEqual(
      kind('aborted'),
    );
    await client.close();
  });

  test('does not resend a write that may have ended the connection', async () => {
    const { server, client, process } = await startedProcess();
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
    const { server, client, process } = await startedProcess();
    server.answers['process/write'] = (_params, link) => {
      link.break();
      return SILENCE;
    };
    await expect(process.write('x')).rejects.toEqual(kind('brokenPipe'));
    expect(server.requests('process/write').length).toBeGreaterThan(2);
    await client.close();
  }, 30_000);
});

describe('missing capabilities', () => {
  test('are reported with a hint', async () => {
    const server = new FakeServer();
    server.environmentInfo = { capabilities: { processResize: 'yes' } };
    server.answers['process/signal'] = () => ({});
    const client = await server.connect();
    const process = await client.backend.start(startParams());
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

describe('terminate', () => {
  test('needs no server for a closed process', async () => {
    const { server, client, process } = await startedProcess();
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

  test('is retried when its answer is lost, and reports that the process was running', async () => {
    const { server, client, process } = await startedProcess();
    server.answers['process/terminate'] = (_params, link) => {
      server.answers['process/terminate'] = () => ({ running: false });
      link.break();
      return SILENCE;
    };
    expect(await process.terminate()).toBe(true);
    expect(server.requests('process/terminate')).toHaveLength(2);
    expect(await process.terminate()).toBe(false);
    await client.close();
  });

  test('gives up when it ends every connection', async () => {
    const { server, client, process } = await startedProcess();
    server.answers['process/terminate'] = (_params, link) => {
      link.break();
      return SILENCE;
    };
    await expect(process.terminate()).rejects.toEqual(kind('brokenPipe'));
    expect(server.requests('process/terminate')).toHaveLength(1 + MAX_RETRIES);
    await client.close();
  });

  test('has one timeout across all retries', async () => {
    const { server, client, process } = await startedProcess();
    server.answers['process/terminate'] = (_params, link) => {
      server.answers['process/terminate'] = () => SILENCE;
      link.break();
      return SILENCE;
    };
    await expect(process.terminate(undefined, { timeoutMs: 200 })).rejects.toEqual(kind('timeout'));
    await client.close();
  });

  test('signal is not retried', async () => {
    const { server, client, process } = await startedProcess();
    server.answers['process/signal'] = (_params, link) => {
      link.break();
      return SILENCE;
    };
    await expect(process.signal('interrupt')).rejects.toEqual(kind('brokenPipe'));
    await waitFor('the recovery', () => client.state === 'connected');
    await delay(1);
    expect(server.requests('process/signal')).toHaveLength(1);
    await client.close();
  });
});
