import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, test, vi } from 'vitest';
import type { ExecProcess, ProcessEvent } from '../../../../src/client/backend.ts';
import type { ExecServerClient } from '../../../../src/client/client.ts';
import { ClientError } from '../../../../src/client/errors.ts';
import { RpcError } from '../../../../src/protocol/errors.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { FakeServer, SILENCE, wirePage } from '../fake-server.ts';

const kind = (expected: string, rest: Record<string, unknown> = {}) =>
  expect.objectContaining({ name: 'ClientError', kind: expected, ...rest });
const params = (processId: string) => ({ processId, argv: ['x'], cwd: 'file:///', env: {}, tty: false });

async function world(processIds: readonly string[] = ['p'], options = {}) {
  const server = new FakeServer();
  const client = await server.connect(options);
  const processes: ExecProcess[] = [];
  for (const id of processIds) processes.push(await client.backend.start(params(id)));
  return { server, client, processes };
}

const recovered = (client: ExecServerClient) => waitFor('the recovery', () => client.state === 'connected');

async function types(process: ExecProcess): Promise<string[]> {
  const list: string[] = [];
  for await (const event of process.events()) list.push(short(event));
  return list;
}

function short(event: ProcessEvent): string {
  if (event.type === 'lost') return `lost ${event.fromSeq}-${event.toSeq}`;
  return event.type === 'failed' ? `failed ${event.error.message}` : `${event.type} ${event.seq}`;
}

describe('a lost connection', () => {
  test('is replaced by a new one to the same session', async () => {
    const { server, client } = await world([]);
    const states: unknown[] = [];
    client.onStateChange((state, failure) => states.push([state, failure?.kind]));
    server.environmentInfo = { capabilities: { fsWatch: true } };
    server.link.break();
    await waitFor('both changes', () => states.length === 2);
    expect(states).toEqual([
      ['recovering', 'disconnected'],
      ['connected', undefined],
    ]);
    expect(server.link.requests[0]!.params).toEqual({
      clientName: 'exec-server-client',
      resumeSessionId: 'session-1',
      capabilities: { processSharing: true, drainNotice: true, droppedProcesses: true },
    });
    expect(server.link.notifications).toEqual(['initialized']);
    expect(client.capabilities).toEqual({ fsWatch: true });
    expect(client.failure).toBeNull();
    await client.close();
  });

  test('is tried again when the program that carries it has ended, as ssh does without a network', async () => {
    const { server, client } = await world([]);
    const { initialize } = server.answers;
    let failures = 2;
    server.answers.initialize = (given, link) => {
      if (failures-- === 0) return initialize!(given, link);
      link.transport.close({ code: 1006, reason: 'ssh has ended (exit code 255)', programEnded: true });
      return SILENCE;
    };
    server.link.break();
    await recovered(client);
    expect([failures, server.attempts, client.failure]).toEqual([-1, 4, null]);
    await client.close();
  });

  test.each([
    'ssh has ended (exit code 127): sh: exec-server: not found',
    'ssh has ended (exit code 255): me@box: Permission denied (publickey,password).',
  ])('is given up when the program that carries it was refused: %s', async (reason) => {
    const { server, client } = await world([]);
    server.answers.initialize = (_params, link) => {
      link.transport.close({ code: 1006, reason, programEnded: true });
      return SILENCE;
    };
    server.link.break();
    await waitFor('the end', () => client.state === 'failed');
    expect(server.attempts).toBe(2);
    expect(client.failure?.message).toContain(reason);
    await client.close();
  });

  test('loses no output: the client reads what it missed, once and in order', async () => {
    const { server, client, processes } = await world();
    server.link.output('p', 1);
    await waitFor('the first event', () => processes[0]!.revision === 1);
    server.answers['process/read'] = (_params, link) => {
      // Newer than the page, and received before it.
      link.output('p', 6);
      return wirePage(6, [2, 3, 4], { exited: true, exitCode: 3 });
    };
    server.link.break();
    await recovered(client);
    expect(server.requests('process/read')[0]!.params).toEqual({
      processId: 'p',
      afterSeq: 1,
      maxBytes: null,
      waitMs: 0,
    });
    server.link.closedProcess('p', 7);
    expect(await types(processes[0]!)).toEqual([
      'output 1',
      'output 2',
      'output 3',
      'output 4',
      'exited 5',
      'output 6',
      'closed 7',
    ]);
    await client.close();
  });

  test('fails only the process that can no longer be followed', async () => {
    const { server, client, processes } = await world(['evicted', 'unknown', 'odd', 'healthy']);
    server.answers['process/read'] = ({ processId }) => {
      if (processId === 'unknown') throw new RpcError(-32600, 'no such process');
      if (processId === 'odd') return wirePage(3, [7]);
      return processId === 'evicted' ? wirePage(9, [8]) : wirePage(2, [1]);
    };
    server.link.break();
    await recovered(client);
    const [evicted, unknown, odd, healthy] = processes as [
      ExecProcess,
      ExecProcess,
      ExecProcess,
      ExecProcess,
    ];
    const terminated = await server.untilRequests('process/terminate', 2);
    expect(terminated.map((request) => request.params.processId).sort()).toEqual(['odd', 'unknown']);
    expect(await types(unknown)).toEqual(['failed x can no longer be followed: no such process']);
    expect(odd.state.failure).toEqual(kind('protocol'));
    for (const process of [evicted, healthy]) {
      server.link.exited(process.processId, process === evicted ? 9 : 2);
      server.link.closedProcess(process.processId, process === evicted ? 10 : 3);
    }
    expect(await types(evicted)).toEqual(['lost 1-7', 'output 8', 'exited 9', 'closed 10']);
    expect(await types(healthy)).toEqual(['output 1', 'exited 2', 'closed 3']);
    await client.close();
  });

  test('terminates a process that can no longer be followed, even after another loss', async () => {
    const { server, client } = await world(['odd']);
    server.answers['process/read'] = () => wirePage(3, [7]);
    server.answers['process/terminate'] = (_params, link) => {
      server.answers['process/terminate'] = () => ({ running: true });
      link.break();
      return SILENCE;
    };
    server.link.break();
    await server.untilRequests('process/terminate', 2);
    await client.close();
  });

  test('is restored again when the next one is lost during the catch-up', async () => {
    const { server, client, processes } = await world(['a', 'b', 'c', 'd', 'e', 'f']);
    let reads = 0;
    server.answers['process/read'] = (_params, link) => {
      if (++reads === 3) link.break();
      return wirePage(2, [1]);
    };
    server.link.break();
    await recovered(client);
    expect(server.links).toHaveLength(3);
    expect(processes.map((process) => process.revision)).toEqual([1, 1, 1, 1, 1, 1]);
    await client.close();
  });

  test('is not restored before every process has caught up', async () => {
    const { server, client, processes } = await world(['a', 'b']);
    server.answers['process/read'] = ({ processId }) => (processId === 'a' ? SILENCE : wirePage(2, [1]));
    server.link.break();
    const status = client.call('process/list', {}).catch(() => null);
    await server.untilRequests('process/read', 2);
    await waitFor('one of them', () => processes[1]!.revision === 1);
    expect(client.state).toBe('recovering');
    expect(server.requests('process/list')).toEqual([]);
    const read = server.requests('process/read').find((request) => request.params.processId === 'a')!;
    server.answers['process/read'] = () => wirePage(2, []);
    server.link.respond(read, wirePage(2, [1]));
    await recovered(client);
    expect(processes[0]!.revision).toBe(1);
    await server.untilRequests('process/list', 1);
    await client.close();
    expect(await status).toBeNull();
  });

  test('is resumed as soon as the server has noticed the loss', async () => {
    const { server, client } = await world([]);
    const initialize = server.answers.initialize!;
    let refusals = 3;
    server.answers.initialize = (value, link) => {
      if (refusals-- > 0) throw new RpcError(-32010, 'still attached');
      return initialize(value, link);
    };
    server.link.break();
    await recovered(client);
    expect(server.links).toHaveLength(5);
    await client.close();
  });

  test('is resumed after an attempt that got no answer', async () => {
    const { server, client } = await world([], { initializeTimeoutMs: 30 });
    const initialize = server.answers.initialize!;
    server.answers.initialize = (value, link) =>
      server.links.length === 2 ? SILENCE : initialize(value, link);
    server.link.break();
    await recovered(client);
    expect(server.links).toHaveLength(3);
    await client.close();
  });

  test('keeps a process whose start was answered right before the loss', async () => {
    const { server, client } = await world([]);
    server.answers['process/start'] = ({ processId }, link) => {
      link.send({ id: link.requests.at(-1)!.id, result: { processId } });
      link.output(processId, 1);
      // Everything above arrives before the end, in the same turn of the event loop.
      link.transport.close({ code: 1006, reason: 'gone' });
      return SILENCE;
    };
    server.answers['process/read'] = () => wirePage(3, [1, 2]);
    const process = await client.backend.start(params('p'));
    await recovered(client);
    await waitFor('the output', () => process.revision === 2);
    await client.close();
  });

  test('backs off when the connection drops again right after a recovery', async () => {
    const { server, client } = await world([]);
    const initialize = server.answers.initialize!;
    server.answers.initialize = (value, link) => {
      setImmediate(() => setImmediate(() => link.break()));
      return initialize(value, link);
    };
    server.link.break();
    const before = performance.now();
    await waitFor('some connections', () => server.links.length === 6);
    // At least half of 50, 100, 200, 400 and 800 ms.
    expect(performance.now() - before).toBeGreaterThan(700);
    await client.close();
  });
});

describe('calls during an outage', () => {
  test('wait, are retried when they only read, and fail when they may have taken effect', async () => {
    const { server, client } = await world([]);
    const looking = client.call('fs/readFile', { path: 'file:///x' });
    const doing = client.call('fs/writeFile', { path: 'file:///x', dataBase64: '' });
    const outcome = Promise.allSettled([doing]);
    await server.untilRequests('fs/writeFile', 1);
    server.answers['fs/readFile'] = () => ({ dataBase64: 'eA==' });
    server.answers['fs/writeFile'] = () => ({});
    server.link.break();
    await nextTurn();
    const waiting = client.call('fs/writeFile', { path: 'file:///y', dataBase64: '' });
    expect(await outcome).toEqual([
      { status: 'rejected', reason: kind('brokenPipe', { hint: expect.any(String) }) },
    ]);
    expect(await looking).toEqual({ dataBase64: 'eA==' });
    expect(await waiting).toEqual({});
    expect(server.requests('fs/writeFile').map((request) => request.params.path)).toEqual([
      'file:///x',
      'file:///y',
    ]);
    await client.close();
  });

  test('resolve when they were answered before the end of the connection', async () => {
    const { server, client } = await world([]);
    server.answers['fs/remove'] = (_params, link) => {
      link.send({ id: link.requests.at(-1)!.id, result: { last: true } });
      link.transport.close({ code: 1006, reason: 'gone' });
      return SILENCE;
    };
    expect(await client.call('fs/remove', { path: 'file:///x' })).toEqual({ last: true });
    await client.close();
  });

  test('keep their timeouts and signals', async () => {
    const { server, client } = await world([]);
    server.refusal = new Error('down');
    server.link.break();
    await waitFor('the outage', () => client.state === 'recovering');
    await expect(client.call('process/list', {}, { timeoutMs: 20 })).rejects.toEqual(kind('timeout'));
    const aborter = new AbortController();
    const aborted = client.backend.start(params('p'), { signal: aborter.signal });
    aborter.abort();
    await expect(aborted).rejects.toEqual(kind('aborted'));
    await client.close();
  });

  test('fail immediately for environment/status', async () => {
    const { server, client } = await world([]);
    server.refusal = new Error('down');
    server.link.break();
    await waitFor('the outage', () => client.state === 'recovering');
    await expect(client.call('environment/status', {})).rejects.toEqual(
      kind('disconnected', { retryable: true }),
    );
    await client.close();
  });
});

describe('a connection that cannot be restored', () => {
  test('fails the client, its calls and its processes with the last cause', async () => {
    const { server, client, processes } = await world(['p'], { recoveryWindowMs: 200 });
    server.refusal = new ClientError('connectFailed', 'the server is down', {
      retryable: true,
      hint: 'start it',
    });
    const calls = Promise.allSettled([client.call('process/list', {}), processes[0]!.write('x')]);
    const events = types(processes[0]!);
    server.answers['process/write'] = () => SILENCE;
    server.link.break();
    await waitFor('the end', () => client.state === 'failed');
    expect(client.failure).toEqual(
      kind('disconnected', {
        message:
          'the connection was lost: the link broke (1006) and could not be restored: the server is down; start it',
        hint: 'start it',
      }),
    );
    for (const outcome of await calls)
      expect(outcome).toEqual({ status: 'rejected', reason: kind('disconnected') });
    expect(await events).toEqual([`failed ${client.failure!.message}`]);
    expect(await processes[0]!.read()).toMatchObject({ closed: true, failure: client.failure!.message });
    await expect(client.call('environment/status', {})).rejects.toEqual(kind('disconnected'));
    await expect(client.backend.start(params('q'))).rejects.toEqual(kind('disconnected'));
    expect(server.attempts).toBeGreaterThan(2);
    await client.close();
  });

  test.each([
    [
      'the session is gone',
      () => void 0,
      new RpcError(-32600, 'unknown session id x'),
      'longer `detachedSessionTtlMs`',
    ],
    ['another session is opened', () => ({ sessionId: 'session-2' }), null, 'exec-server'],
    ['the answer is malformed', () => ({}), null, 'exec-server'],
  ])('fails the client immediately when %s', async (_name, answer, refusal, hint) => {
    const { server, client } = await world([], { recoveryWindowMs: 'none' });
    server.answers.initialize = () => {
      if (refusal !== null) throw refusal;
      return answer();
    };
    server.link.break();
    await waitFor('the end', () => client.state === 'failed');
    expect(server.links).toHaveLength(2);
    expect(client.failure!.message).toContain(hint);
  });

  test('is tried without a limit when the recovery window is none', async () => {
    const { server, client } = await world([], { recoveryWindowMs: 'none' });
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    try {
      server.refusal = new ClientError('connectFailed', 'down', { retryable: true });
      server.link.break();
      await vi.advanceTimersByTimeAsync(600_000);
      expect(client.state).toBe('recovering');
      server.refusal = null;
      await vi.advanceTimersByTimeAsync(2_000);
      await recovered(client);
    } finally {
      vi.useRealTimers();
    }
    await client.close();
  });

  test('reports a timeout when the only attempt never ended', async () => {
    const { server, client } = await world([], { recoveryWindowMs: 30 });
    server.answers.initialize = () => SILENCE;
    server.link.break();
    await waitFor('the end', () => client.state === 'failed');
    expect(client.failure).toEqual(
      kind('disconnected', { message: expect.stringContaining('the recovery took longer than 30 ms') }),
    );
  });

  test('fails the client immediately when a transport error is final', async () => {
    const { server, client } = await world([], { recoveryWindowMs: 60_000 });
    server.refusal = new ClientError('connectFailed', 'HTTP 401', { hint: 'the token is no longer valid' });
    server.link.break();
    await waitFor('the end', () => client.state === 'failed');
    expect(server.attempts).toBe(2);
    expect(client.failure).toEqual(kind('disconnected', { hint: 'the token is no longer valid' }));
  });

  test('fails the client immediately when the transport is not resumable', async () => {
    const { server, client, processes } = await world(['p'], { resumable: false, recoveryWindowMs: 'none' });
    server.link.transport.close({ code: 1006, reason: 'the program has ended' });
    await waitFor('the end', () => client.state === 'failed');
    expect(server.attempts).toBe(1);
    expect(client.failure!.message).toContain('the program has ended (1006)');
    expect(processes[0]!.state.failure).toBe(client.failure);
  });

  test('does not delay closing the client', async () => {
    const { server, client } = await world([], { recoveryWindowMs: 60_000 });
    server.refusal = new Error('down');
    const call = client.call('process/list', {});
    const outcome = Promise.allSettled([call]);
    server.link.break();
    await waitFor('attempts', () => server.attempts > 2);
    await client.close();
    expect(await outcome).toEqual([{ status: 'rejected', reason: kind('closed') }]);
    const { attempts } = server;
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(server.attempts).toBe(attempts);
  });

  test('is closed when it opens after the client was closed', async () => {
    const { server, client } = await world(['p']);
    server.answers['process/read'] = () => SILENCE;
    server.link.break();
    await server.untilRequests('process/read', 1);
    await client.close();
    await waitFor('the end of the link', () => server.link.closed !== null);
    expect(client.state).toBe('closed');
  });
});
