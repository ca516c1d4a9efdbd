import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { ExecServerClient as BrowserClient } from '../../../src/client/browser-client.ts';
import { ExecServerClient } from '../../../src/client/client.ts';
import { ClientCore } from '../../../src/client/client-core.ts';
import { ClientError } from '../../../src/client/errors.ts';
import { run } from '../../../src/client/process/run.ts';
import { RpcError } from '../../../src/protocol/errors.ts';
import { MAX_PENDING_CALLS } from '../../../src/rpc/limits.ts';
import { waitFor } from '../../support/wait-for.ts';
import { FakeServer, SILENCE } from './fake-server.ts';

const kind = (expected: string, rest: Record<string, unknown> = {}) =>
  expect.objectContaining({ name: 'ClientError', kind: expected, ...rest });

/** A client that probes the server like the one for browsers. */
class ProbingClient extends ClientCore {
  static async connect(server: FakeServer, intervalMs: number, timeoutMs: number): Promise<ProbingClient> {
    const client = new ProbingClient({ open: server.open, resumable: true }, {});
    await client.start({});
    client.keepAlive(intervalMs, timeoutMs);
    return client;
  }
}

test('an interval of 0 sends no keep-alive probes', async () => {
  const setInterval = vi.spyOn(globalThis, 'setInterval');
  onTestFinished(() => setInterval.mockRestore());
  const client = await ProbingClient.connect(new FakeServer(), 0, 1_000);
  expect(setInterval).not.toHaveBeenCalled();
  await client.close();
});

test('a timeout of 0 keeps a connection that does not answer probes', async () => {
  const server = new FakeServer();
  server.answers['environment/status'] = () => SILENCE;
  const client = await ProbingClient.connect(server, 1, 0);
  await server.untilRequests('environment/status', 3);
  expect(server.links).toHaveLength(1);
  await client.close();
});

test('a connection whose answers are late is kept as long as other messages arrive', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const server = new FakeServer();
  server.answers['environment/status'] = (_params, link) => {
    link.output('p', link.requests.length);
    return SILENCE;
  };
  const client = await ProbingClient.connect(server, 1_000, 3_000);
  const pass = async (seconds: number) => {
    for (let second = 0; second < seconds; second++) {
      await vi.advanceTimersByTimeAsync(1_000);
      // The messages of both directions arrive.
      for (let turn = 0; turn < 4; turn++) await nextTurn();
    }
  };
  await pass(10);
  expect([server.requests('environment/status').length, server.links.length]).toEqual([10, 1]);
  server.answers['environment/status'] = () => SILENCE;
  await pass(5);
  expect(server.links[0]!.closed).not.toBeNull();
  await client.close();
});

describe('ExecServerClient.connect', () => {
  test('performs the handshake and exposes the environment of the server', async () => {
    const server = new FakeServer();
    const client = await server.connect({ clientName: 'me', detachedSessionTtlMs: 5 });
    expect(server.link.requests).toEqual([
      {
        id: 1,
        method: 'initialize',
        params: {
          clientName: 'me',
          resumeSessionId: null,
          detachedSessionTtlMs: 5,
          capabilities: { processSharing: true, drainNotice: true },
        },
      },
    ]);
    await waitFor('the acknowledgement', () => server.link.notifications.includes('initialized'));
    expect(client.sessionId).toBe('session-1');
    expect(client.state).toBe('connected');
    expect(client.failure).toBeNull();
    expect(client.environmentInfo).toMatchObject({ cwd: 'file:///work' });
    expect(client.capabilities).toMatchObject({ processResize: true });
    expect(client.capabilities.fsWatch).toBeUndefined();
    expect(await client.backend.defaultCwd?.()).toBe('file:///work');
    await client.close();
  });

  test('asks for a session without a TTL', async () => {
    const server = new FakeServer();
    const client = await server.connect({ detachedSessionTtlMs: 'none' });
    expect(server.requests('initialize')[0]!.params.detachedSessionTtlMs).toBe(-1);
    await client.close();
  });

  test.each(['recoveryWindowMs', 'detachedSessionTtlMs'])(
    'rejects a %s that is no duration',
    async (name) => {
      for (const [value, shown] of [
        [-1, '-1'],
        [Number.NaN, 'NaN'],
        ['1h', 'a string'],
        [null, 'null'],
      ]) {
        await expect(new FakeServer().connect({ [name as string]: value })).rejects.toEqual(
          kind('config', {
            message: `\`${name}\` is ${shown}, not a number of milliseconds; write a number from 0, or 'none'`,
          }),
        );
      }
    },
  );

  test.each([
    ['connectTimeoutMs', 'a number of milliseconds; write a number from 0'],
    ['initializeTimeoutMs', 'a number of milliseconds; write a number from 0'],
    ['pingIntervalMs', 'a number of milliseconds; write a number from 0 to 2147483647'],
    ['pongTimeoutMs', 'a number of milliseconds; write a number from 0 to 2147483647'],
    ['maxMessageBytes', 'a number of bytes; write a whole number from 1'],
  ])('rejects a %s that is not a number, before it connects', async (name, expected) => {
    for (const [value, shown] of [
      ['5s', 'a string'],
      [-1, '-1'],
      [Number.NaN, 'NaN'],
      [null, 'null'],
      [[5], 'a list'],
      [true, 'a boolean'],
    ]) {
      const refused = kind('config', { message: `\`${name}\` is ${shown}, not ${expected}` });
      if (!name.startsWith('p')) {
        const server = new FakeServer();
        await expect(server.connect({ [name]: value })).rejects.toEqual(refused);
        expect(server.attempts).toBe(0);
      }
      const url = { url: 'ws://127.0.0.1:1', [name]: value };
      await expect(ExecServerClient.connect(url)).rejects.toEqual(refused);
      await expect(BrowserClient.connect(url)).rejects.toEqual(refused);
    }
  });

  test('rejects an interval that no timer can hold', async () => {
    const options = { url: 'ws://127.0.0.1:1', pingIntervalMs: 2 ** 31 };
    await expect(ExecServerClient.connect(options)).rejects.toMatchObject({ kind: 'config' });
  });

  test('takes Infinity for no limit', async () => {
    const server = new FakeServer();
    const infinite = Number.POSITIVE_INFINITY;
    const client = await server.connect({ detachedSessionTtlMs: infinite, connectTimeoutMs: infinite });
    expect(server.requests('initialize')[0]!.params.detachedSessionTtlMs).toBe(-1);
    await client.close();
  });

  test('rejects numbers of calls and runs that are not numbers', async () => {
    const server = new FakeServer();
    const client = await server.connect();
    const timeout = kind('invalidInput', {
      message: '`timeoutMs` is a string, not a number of milliseconds; write a number from 0',
    });
    const timeoutMs = '5s' as unknown as number;
    await expect(client.call('environment/status', {}, { timeoutMs })).rejects.toEqual(timeout);
    await expect(run(client.backend, ['true'], { timeoutMs })).rejects.toEqual(timeout);
    const maxOutputBytes = '1MiB' as unknown as number;
    await expect(run(client.backend, ['true'], { maxOutputBytes })).rejects.toEqual(
      kind('invalidInput', {
        message: '`maxOutputBytes` is a string, not a number of bytes; write a whole number from 0',
      }),
    );
    expect(server.requests('process/start')).toEqual([]);
    await client.close();
  });

  test('reports which processes of a resumed session the server dropped', async () => {
    const server = new FakeServer();
    const dropped = { processId: 'p', exitCode: 3, closedAtMs: 1, droppedAtMs: 2, limit: 'someLimit' };
    server.answers.initialize = () => ({
      sessionId: 'session-1',
      droppedProcesses: [dropped, { ...dropped, exitCode: 'x' }, null],
    });
    const client = await server.connect({ resumeSessionId: 'session-1' });
    expect(server.requests('initialize')[0]!.params.capabilities).toEqual({
      processSharing: true,
      drainNotice: true,
      droppedProcesses: true,
    });
    expect(client.droppedProcesses).toEqual([
      { processId: 'p', exitCode: 3, closedAt: new Date(1), droppedAt: new Date(2), limit: 'someLimit' },
    ]);
    await client.close();
  });

  test('accepts a server that does not describe its environment', async () => {
    const server = new FakeServer();
    server.environmentInfo = undefined;
    const client = await server.connect({ resumeSessionId: 'session-1' });
    expect(server.requests('initialize')[0]!.params).toMatchObject({
      clientName: 'exec-server-client',
      resumeSessionId: 'session-1',
    });
    expect(client.environmentInfo).toBeNull();
    expect(client.capabilities).toEqual({});
    await client.close();
  });

  test.each([
    [
      'cannot be reached',
      (server: FakeServer) => {
        server.refusal = new Error('no route');
      },
      'connectFailed',
      true,
    ],
    [
      'refuses the session',
      (server: FakeServer) => {
        server.answers.initialize = () => {
          throw new RpcError(-32600, 'unknown session id');
        };
      },
      'notFound',
      false,
    ],
    [
      'has the session attached elsewhere',
      (server: FakeServer) => {
        server.answers.initialize = () => {
          throw new RpcError(-32010, 'attached');
        };
      },
      'conflict',
      true,
    ],
    [
      'opens another session',
      (server: FakeServer) => {
        server.answers.initialize = () => ({ sessionId: 'other' });
      },
      'protocol',
      false,
    ],
    [
      'answers without a session id',
      (server: FakeServer) => {
        server.answers.initialize = () => ({ sessionId: 7 });
      },
      'protocol',
      false,
    ],
    [
      'sends an invalid message',
      (server: FakeServer) => {
        server.answers.initialize = (_params, link) => {
          link.send('HTTP/1.1 200 OK');
          return SILENCE;
        };
      },
      'protocol',
      true,
    ],
    [
      'closes the connection',
      (server: FakeServer) => {
        server.answers.initialize = (_params, link) => {
          link.break();
          return SILENCE;
        };
      },
      'disconnected',
      true,
    ],
  ])('fails when the server %s', async (_name, prepare, expected, retryable) => {
    const server = new FakeServer();
    prepare(server);
    const connecting = server.connect({ resumeSessionId: 'session-1' });
    await expect(connecting).rejects.toEqual(kind(expected, { retryable }));
    for (const link of server.links) await waitFor('the end of the link', () => link.closed !== null);
  });

  test('times out the handshake and leaves nothing open', async () => {
    const server = new FakeServer();
    server.answers.initialize = () => SILENCE;
    await expect(server.connect({ initializeTimeoutMs: 20 })).rejects.toEqual(
      kind('initializeTimeout', { retryable: true }),
    );
    await waitFor('the end of the link', () => server.link.closed !== null);
  });

  test('times out the connection and closes one that opens later', async () => {
    const server = new FakeServer();
    let arrive = () => {};
    const late = new Promise<void>((resolve) => {
      arrive = resolve;
    });
    const open = async () => {
      await late;
      return server.open();
    };
    await expect(server.connect({ open, connectTimeoutMs: 20 })).rejects.toEqual(kind('connectTimeout'));
    arrive();
    await waitFor('the end of the link', () => server.links[0]?.closed);
  });

  test('can be aborted', async () => {
    const server = new FakeServer();
    server.answers.initialize = () => SILENCE;
    const signal = AbortSignal.timeout(10);
    await expect(server.connect({ signal })).rejects.toEqual(kind('aborted'));
    await expect(server.connect({ signal: AbortSignal.abort() })).rejects.toEqual(kind('aborted'));
    expect(server.attempts).toBe(1);
  });

  test('accepts events before the answer to initialize', async () => {
    const server = new FakeServer();
    const initialize = server.answers.initialize!;
    server.answers.initialize = (params, link) => {
      for (let seq = 1; seq < 1000; seq++) link.output('p', seq);
      return initialize(params, link);
    };
    await (await server.connect()).close();
  });
});

describe('ExecServerClient.call', () => {
  test('passes params and results unchanged, including fractions', async () => {
    const server = new FakeServer();
    server.answers['fs/getMetadata'] = () => ({ modifiedAtMs: 1700000000000.25, size: 1.5e300 });
    const client = await server.connect();
    const result = await client.call('fs/getMetadata', { path: 'file:///x' });
    expect(result).toEqual({ modifiedAtMs: 1700000000000.25, size: 1.5e300 });
    expect(server.requests('fs/getMetadata')[0]!.params).toEqual({ path: 'file:///x' });
    await client.close();
  });

  test('rejects with the error code of the server, or as unsupported for an unknown method', async () => {
    const server = new FakeServer();
    server.answers['fs/readFile'] = () => {
      throw new RpcError(-32004, 'no such file');
    };
    server.answers['fs/search'] = () => {
      throw new RpcError(-32601, 'unknown method');
    };
    const client = await server.connect();
    await expect(client.call('fs/readFile', { path: 'file:///x' })).rejects.toEqual(
      kind('notFound', { code: -32004, message: 'no such file' }),
    );
    await expect(client.call('fs/search', { path: 'file:///x', pattern: 'x' })).rejects.toEqual(
      kind('unsupported', { code: -32601, hint: expect.any(String) }),
    );
    await client.close();
  });

  test('ends at its deadline or signal, ignores a late answer and frees the slot', async () => {
    const server = new FakeServer();
    const client = await server.connect();
    await expect(client.call('process/list', {}, { timeoutMs: 10 })).rejects.toEqual(kind('timeout'));
    const aborter = new AbortController();
    const aborted = client.call('process/list', {}, { signal: aborter.signal });
    await server.untilRequests('process/list', 2);
    aborter.abort(new Error('enough'));
    await expect(aborted).rejects.toEqual(kind('aborted', { cause: aborter.signal.reason }));
    await expect(client.call('process/list', {}, { signal: AbortSignal.abort() })).rejects.toEqual(
      kind('aborted'),
    );
    for (const request of server.requests('process/list')) server.link.respond(request, {});
    await nextTurn();
    await nextTurn();
    expect(server.requests('process/list')).toHaveLength(2);
    expect(client.state).toBe('connected');
    await client.close();
  });

  test('rejects calls above the limit immediately, except cleanup calls', async () => {
    const server = new FakeServer();
    server.answers['process/terminate'] = () => SILENCE;
    const client = await server.connect();
    const open = Array.from({ length: MAX_PENDING_CALLS }, () => client.call('process/list', {}));
    const outcomes = Promise.allSettled(open);
    await expect(client.call('process/list', {})).rejects.toEqual(kind('overloaded', { retryable: true }));
    const cleaning = client.call('process/terminate', { processId: 'p' });
    await server.untilRequests('process/terminate', 1);
    // Both slots are taken: the client drops the connection, so that the server cleans up.
    await expect(client.call('fs/close', { handleId: 'h' })).rejects.toEqual(kind('brokenPipe'));
    await expect(cleaning).rejects.toEqual(kind('brokenPipe'));
    server.answers['process/list'] = () => ({ processes: [] });
    expect((await outcomes).every((outcome) => outcome.status === 'fulfilled')).toBe(true);
    expect(server.links).toHaveLength(2);
    await client.close();
  });

  test('rejects only the call that cannot be encoded', async () => {
    const server = new FakeServer();
    const client = await server.connect();
    const bad = { processId: 'p', afterSeq: 1n } as unknown as { processId: string };
    await expect(client.call('process/read', bad)).rejects.toEqual(kind('invalidInput'));
    expect(await client.call('environment/status', {})).toEqual({ status: 'ready' });
    await client.close();
  });

  test('refuses unknown requests from the server', async () => {
    const server = new FakeServer();
    const client = await server.connect();
    server.link.send({ id: 7, method: 'network/other', params: {} });
    await waitFor('the refusal', () => server.link.responses.length > 0);
    expect(server.link.responses).toEqual([
      {
        id: 7,
        error: { code: -32601, message: 'exec-server client does not implement `network/other` yet' },
      },
    ]);
    await client.close();
  });
});

describe('ExecServerClient.onNotification', () => {
  test('calls every listener, even if one throws', async () => {
    const server = new FakeServer();
    const client = await server.connect();
    const seen: unknown[] = [];
    const stop = client.onNotification('fs/missingChanged', ({ watchId }) => seen.push(watchId));
    client.onNotification('fs/missingChanged', (params) => seen.push(params));
    server.link.send({ method: 'fs/missingChanged', params: { watchId: 1 } });
    await waitFor('both', () => seen.length === 2);
    stop();
    server.link.send({ method: 'something/else' });
    server.link.send({ method: 'fs/missingChanged', params: { watchId: 2 } });
    await waitFor('the other', () => seen.length === 3);
    expect(seen).toEqual([1, { watchId: 1 }, { watchId: 2 }]);
    await client.close();
  });
});

describe('events of processes', () => {
  test('are passed as notifications when the process was started with a plain call', async () => {
    const server = new FakeServer();
    const client = await server.connect();
    const params = { argv: ['x'], cwd: 'file:///', env: {}, tty: false };
    await client.backend.start({ ...params, processId: 'followed' });
    await client.call('process/start', { ...params, processId: 'by hand' });
    const seen: unknown[] = [];
    client.onNotification('process/exited', ({ processId }) => seen.push(processId));
    server.link.exited('followed', 1);
    server.link.exited('by hand', 1);
    await waitFor('the event', () => seen.length > 0);
    expect(seen).toEqual(['by hand']);
    await client.close();
  });
});

describe('ExecServerClient.close', () => {
  test('ends calls and processes, and rejects everything after it', async () => {
    const server = new FakeServer();
    const client = await server.connect();
    const states: unknown[] = [];
    client.onStateChange((state, failure) => states.push([state, failure?.kind]));
    const process = await client.backend.start({
      processId: 'p',
      argv: ['x'],
      cwd: 'file:///',
      env: {},
      tty: false,
    });
    const calls = Promise.allSettled([
      client.call('process/list', {}),
      client.call('fs/remove', { path: 'file:///x' }),
      process.events().next(),
    ]);
    await client.close();
    await client.close();
    expect(states).toEqual([['closed', 'closed']]);
    const [list, remove, event] = await calls;
    expect(list).toEqual({ status: 'rejected', reason: kind('closed') });
    expect(remove).toEqual({ status: 'rejected', reason: kind('closed') });
    expect(event).toMatchObject({ value: { value: { type: 'failed', error: kind('closed') } } });
    await expect(client.call('environment/status', {})).rejects.toEqual(kind('closed'));
    await expect(process.write('x')).rejects.toEqual(kind('closed'));
    expect(process.state.failure).toBeInstanceOf(ClientError);
    await waitFor('the end of the link', () => server.link.closed?.code === 1000);
    expect(server.attempts).toBe(1);
  });
});
