import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startServer, type TestClient, type TestServer } from '../../src/testing/index.ts';
import { base64, plain, shell, terminal } from '../support/programs.ts';

let server: TestServer;
let client: TestClient;
beforeAll(async () => {
  server = await startServer();
  client = await server.connect();
});
afterAll(() => server.close());

const decoded = (text: string) => Buffer.from(text, 'base64').toString();

describe('process/closeStdin', () => {
  test('lets a program that reads to the end finish', async () => {
    await client.call('process/start', { ...shell('wc', 'wc -c'), pipeStdin: true });
    await client.call('process/write', { processId: 'wc', chunk: base64('12345'), writeId: '1' });
    expect(await client.call('process/closeStdin', { processId: 'wc' })).toEqual({ status: 'closed' });
    expect(await client.call('process/closeStdin', { processId: 'wc' })).toEqual({ status: 'alreadyClosed' });
    expect(await client.call('process/write', { processId: 'wc', chunk: base64('x'), writeId: '2' })).toEqual(
      {
        status: 'stdinClosed',
      },
    );
    expect((await client.closedProcess('wc')).text().trim()).toBe('5');
  });

  test('sends the end-of-file character to a terminal', async () => {
    await client.call('process/start', terminal('tty-cat', 'cat; echo over'));
    expect(await client.call('process/closeStdin', { processId: 'tty-cat' })).toEqual({ status: 'closed' });
    expect((await client.closedProcess('tty-cat')).text()).toContain('over');
  });

  test('reports when there is nothing to close', async () => {
    await client.call('process/start', shell('no-stdin', 'cat'));
    await client.closedProcess('no-stdin');
    expect(await client.call('process/closeStdin', { processId: 'no-stdin' })).toEqual({
      status: 'alreadyClosed',
    });
    expect(await client.call('process/closeStdin', { processId: 'nobody' })).toEqual({
      status: 'unknownProcess',
    });
  });
});

describe('process/write without writeId', () => {
  test.each([false, true])('with requireWriteId: %s', async (requireWriteId) => {
    const strict = await startServer({ requireWriteId });
    try {
      const writer = await strict.connect();
      await writer.call('process/start', { ...shell('cat', 'cat'), pipeStdin: true });
      const write = (text: string, more = {}) =>
        writer.request('process/write', { processId: 'cat', chunk: base64(text), ...more });
      const missing = write('no id\n');
      if (requireWriteId) {
        await expect(missing).rejects.toMatchObject({
          code: -32602,
          message: 'params.writeId: missing, expected string',
        });
      } else {
        expect(await missing).toEqual({ status: 'accepted' });
      }
      await expect(write('empty id\n', { writeId: '' })).rejects.toMatchObject({ code: -32602 });
      expect(await write('an id\n', { writeId: '1' })).toEqual({ status: 'accepted' });
      await writer.call('process/closeStdin', { processId: 'cat' });
      // A refused write does not reach the program.
      expect((await writer.closedProcess('cat')).text()).toBe(requireWriteId ? 'an id\n' : 'no id\nan id\n');
    } finally {
      await strict.close();
    }
  });
});

describe('process/exec', () => {
  test('starts a program like process/start', async () => {
    expect(await client.request('process/exec', shell('exec', 'echo started'))).toMatchObject({
      processId: 'exec',
    });
    expect((await client.closedProcess('exec')).text()).toBe('started\n');
  });

  test('starts nothing when file descriptors are to be passed', async () => {
    for (const method of ['process/start', 'process/exec']) {
      const params = { ...shell('with-fds', 'echo started'), inheritedFds: [3] };
      await expect(client.request(method, params)).rejects.toMatchObject({
        code: -32602,
        message: expect.stringContaining(
          'params.inheritedFds: file descriptors of a client cannot be passed',
        ),
      });
    }
    const { processes } = await client.call('process/list', {});
    expect(processes.map(({ processId }) => processId)).not.toContain('with-fds');
  });
});

describe('pipelined requests', () => {
  test.each([false, true])('are carried out in order (tty: %s)', async (tty) => {
    const processId = `together-${tty}`;
    const write = (writeId: string) => ({ processId, chunk: base64('x'), writeId });
    await client.call('process/start', { ...shell(processId, 'cat'), tty, pipeStdin: true });
    const outcomes = await Promise.allSettled([
      client.call('process/write', write('1')),
      client.call('process/terminate', { processId }),
      client.call('process/write', write('2')),
    ]);
    expect(outcomes).toMatchObject([
      { value: { status: 'accepted' } },
      { value: { running: true } },
      { reason: { code: -32603 } },
    ]);
  });
});

describe('process/resize', () => {
  test('changes the size and signals the program', async () => {
    const script = "trap 'stty size; exit 0' WINCH; stty size; while :; do sleep 0.01; done";
    await client.call('process/start', { ...terminal('sized', script), size: { rows: 40, cols: 100 } });
    await client.waitFor(
      (message) => message.method === 'process/output' && client.process('sized').text().includes('40 100'),
    );
    expect(await client.call('process/resize', { processId: 'sized', rows: 50, cols: 132 })).toEqual({});
    expect((await client.closedProcess('sized')).text()).toBe('40 100\r\n50 132\r\n');
  });

  test.each([
    [{ rows: 0, cols: 80 }, -32602],
    [{ rows: 24, cols: 65_536 }, -32602],
    [{ rows: 24, cols: 1.5 }, -32602],
  ])('rejects %j', async (size, code) => {
    await expect(client.call('process/resize', { processId: 'sized', ...size })).rejects.toMatchObject({
      code,
    });
  });

  test('rejects a process without a terminal, and an unknown one', async () => {
    await client.call('process/start', shell('piped', 'true'));
    const size = { rows: 24, cols: 80 };
    await expect(client.call('process/resize', { processId: 'piped', ...size })).rejects.toMatchObject({
      code: -32600,
    });
    await expect(client.call('process/resize', { processId: 'nobody', ...size })).rejects.toMatchObject({
      code: -32600,
    });
  });
});

describe('process/wait', () => {
  test('returns at the end, or after the timeout', async () => {
    await client.call('process/start', { ...shell('w', 'read x; exit 9'), pipeStdin: true });
    expect(await client.call('process/wait', { processId: 'w', timeoutMs: 0 })).toMatchObject({
      running: true,
    });
    const waits = [
      client.call('process/wait', { processId: 'w' }),
      client.call('process/wait', { processId: 'w', until: 'exited' }),
    ];
    await client.call('process/write', { processId: 'w', chunk: base64('\n'), writeId: '1' });
    expect(await waits[0]).toEqual({ running: false, exited: true, exitCode: 9, closed: true });
    expect(await waits[1]).toMatchObject({ running: false, exited: true, exitCode: 9 });
    await expect(client.call('process/wait', { processId: 'nobody' })).rejects.toMatchObject({
      code: -32600,
    });
  });
});

describe('process/snapshot', () => {
  test('keeps the streams apart', async () => {
    await client.call('process/start', shell('snap', 'echo out; echo err >&2; exit 3'));
    await client.closedProcess('snap');
    const snapshot = await client.call('process/snapshot', { processId: 'snap' });
    expect([decoded(snapshot.stdout), decoded(snapshot.stderr), snapshot.terminal]).toEqual([
      'out\n',
      'err\n',
      '',
    ]);
    expect(snapshot).toMatchObject({
      truncated: false,
      exitCode: 3,
      running: false,
      closed: true,
      nextSeq: 5,
    });
  });

  test('keeps head and tail and counts the bytes between them', async () => {
    const small = await startServer({ retainedOutputBytesPerProcess: 10_000, snapshotHeadBytes: 1_000 });
    const other = await small.connect();
    await other.call('process/start', terminal('snap', 'stty -onlcr; seq 1 20000'));
    await other.closedProcess('snap');
    const everything = `${Array.from({ length: 20_000 }, (_, i) => i + 1).join('\n')}\n`;
    const snapshot = await other.call('process/snapshot', { processId: 'snap' });
    const text = decoded(snapshot.terminal);
    const head = snapshot.headBytes.terminal;
    expect(snapshot.truncated).toBe(true);
    expect(text.slice(0, head)).toBe(everything.slice(0, head));
    expect(text.slice(head)).toBe(everything.slice(head + snapshot.omittedBytes.terminal));
    expect(text.length).toBeLessThanOrEqual(11_000);
    await small.close();
  });
});

describe('process/list', () => {
  test('shows the processes of the session and of no other', async () => {
    const other = await server.connect();
    expect((await other.call('process/list', {})).processes).toEqual([]);
    await other.call('process/start', terminal('mine', 'sleep 600'));
    const { processes } = await other.call('process/list', {});
    expect(processes).toMatchObject([
      {
        processId: 'mine',
        argv: ['/bin/sh', '-c', 'sleep 600'],
        cwd: 'file:///',
        tty: true,
        state: 'running',
        exitCode: null,
      },
    ]);
    await other.call('process/terminate', { processId: 'mine' });
    await other.closedProcess('mine');
    expect((await other.call('process/list', {})).processes).toMatchObject([
      { state: 'closed', exitCode: 137 },
    ]);
    await other.close();
  });
});

describe('process/signal', () => {
  test.each([
    ['interrupt', 130],
    ['SIGINT', 130],
    ['SIGTERM', 143],
    ['SIGUSR1', 138],
    ['SIGHUP', 129],
    ['SIGKILL', 137],
  ])('%s ends a program with %i, on pipes and terminals', async (signal, exitCode) => {
    for (const start of [shell, terminal]) {
      const processId = `${signal}-${start.name}`;
      await client.call('process/start', start(processId, 'echo up; exec sleep 600'));
      await client.waitFor(
        (message) => message.method === 'process/output' && client.process(processId).bytes().length > 0,
      );
      expect(await client.call('process/signal', { processId, signal })).toEqual({});
      expect((await client.closedProcess(processId)).exitCode).toBe(exitCode);
    }
  });

  test('can stop and continue', async () => {
    await client.call('process/start', shell('stop', 'kill -STOP $$; echo again'));
    const cont = async () => {
      await client.call('process/signal', { processId: 'stop', signal: 'SIGCONT' });
      return (await client.call('process/wait', { processId: 'stop', timeoutMs: 50 })).running;
    };
    let rounds = 0;
    while ((await cont()) && rounds < 200) rounds++;
    expect((await client.closedProcess('stop')).text()).toBe('again\n');
  });

  test('rejects an unknown signal; an unknown process is not an error', async () => {
    for (const signal of ['kill', 'SIGNOPE', '9', '']) {
      await expect(client.call('process/signal', { processId: 'x', signal })).rejects.toMatchObject({
        code: -32602,
      });
    }
    expect(await client.call('process/signal', { processId: 'nobody', signal: 'SIGTERM' })).toEqual({});
  });
});

describe('process/start', () => {
  const program = {
    argv: ['/bin/sh', '-c', 'stty size 2>/dev/null || cat; echo $0', 'zero'],
    cwd: 'file:///',
    env: plain.env,
  };

  test('runs the same child in all three forms', async () => {
    await client.call('process/start', { processId: 'flat', ...program, tty: false, pipeStdin: true });
    await client.call('process/start', {
      direct: { processId: 'direct', ...program, io: { type: 'pipe', stdin: 'open' } },
    });
    await client.call('process/start', {
      prepared: { processId: 'prepared', request: program, io: { type: 'pipe', stdin: 'open' } },
    });
    for (const processId of ['flat', 'direct', 'prepared']) {
      await client.call('process/write', { processId, chunk: base64('in\n'), writeId: '1' });
      await client.call('process/closeStdin', { processId });
      expect((await client.closedProcess(processId)).text()).toBe('in\nzero\n');
    }
  });

  test('opens a terminal of the size in io', async () => {
    const io = { type: 'pty', rows: 40, cols: 100 } as const;
    await client.call('process/start', { direct: { processId: 'io', ...program, io } });
    expect((await client.closedProcess('io')).text()).toBe('40 100\r\nzero\r\n');
  });

  test('rejects disabled forms and names the option', async () => {
    const strict = await startServer({ allowDirectExec: false, allowPreparedExec: false });
    const other = await strict.connect();
    const io = { type: 'pipe', stdin: 'closed' } as const;
    const legacy = { processId: 'l', ...program, tty: false };
    for (const [method, params, word] of [
      ['process/start', { processId: 'f', ...program, tty: false }, 'allowDirectExec'],
      ['process/start', { direct: { processId: 'd', ...program, io } }, 'allowDirectExec'],
      ['command/exec', legacy, 'allowDirectExec'],
      ['process/start', { prepared: { processId: 'p', request: program, io } }, 'allowPreparedExec'],
    ] as const) {
      await expect(other.request(method, params)).rejects.toMatchObject({
        code: -32600,
        message: expect.stringContaining(word),
      });
    }
    await strict.close();
  });

  test('sandboxes a start in every form', async () => {
    const sandbox = { type: 'readOnly' } as const;
    const { processId: _, tty: _tty, ...program } = shell('', 'echo x > /dev/../confined-start');
    const io = { type: 'pipe', stdin: 'closed' } as const;
    const forms = [
      { direct: { processId: 'confined-direct', ...program, io, sandbox } },
      { prepared: { processId: 'confined-prepared', request: program, io, sandbox } },
    ];
    for (const form of forms) {
      const { processId, sandboxType } = await client.call('process/start', form);
      expect(sandboxType).toBe('linuxSeccomp');
      expect(await client.call('process/wait', { processId })).toMatchObject({ exitCode: 2 });
    }
  });

  test('rejects an invalid sandbox and starts nothing', async () => {
    const sandbox = {
      permissions: {
        type: 'managed',
        file_system: { type: 'restricted', entries: [] },
        network: 'restricted',
      },
      workspaceRoots: ['file:///C:/x'],
      windowsSandboxLevel: 'mxc',
    } as const;
    const params = {
      ...shell('confined', 'true'),
      sandbox: { ...sandbox, workspaceRoots: [...sandbox.workspaceRoots] },
    };
    await expect(client.request('process/start', params)).rejects.toMatchObject({ code: -32602 });
    await expect(client.call('process/read', { processId: 'confined' })).rejects.toMatchObject({
      code: -32600,
    });
  });

  test('announces starts and failures only to a client that asked for it', async () => {
    const curious = await server.connect({ handshake: false });
    await curious.handshake({ capabilities: { lifecycleNotifications: true } });
    await curious.call('process/start', shell('p', 'true'));
    await curious.waitFor((message) => message.method === 'process/started');
    await expect(
      curious.call('process/start', { ...shell('q', ''), argv: ['/no/such'] }),
    ).rejects.toMatchObject({ code: -32603 });
    expect(await curious.waitFor((message) => message.method === 'process/failed')).toMatchObject({
      params: { processId: 'q', message: expect.stringContaining('/no/such') },
    });
    await curious.close();
    expect(client.received.some((message) => message.method === 'process/started')).toBe(false);
  });

  test('limits running processes; closed ones are evicted', async () => {
    const small = await startServer({ maxProcessesPerConnection: 2 });
    const other = await small.connect();
    await other.call('process/start', shell('a', 'sleep 600'));
    await other.call('process/start', shell('b', 'sleep 600'));
    await expect(other.call('process/start', shell('c', 'true'))).rejects.toMatchObject({
      code: -32600,
      message: expect.stringContaining('maxProcessesPerConnection'),
    });
    await other.call('process/terminate', { processId: 'a' });
    await other.closedProcess('a');
    await other.call('process/start', shell('c', 'true'));
    await other.closedProcess('c');
    expect((await other.call('process/list', {})).processes.map(({ processId }) => processId)).toEqual([
      'b',
      'c',
    ]);
    await small.close();
  });
});

describe('without native calls', () => {
  test('supports pipes, and rejects a terminal with the reason', async () => {
    const fallback = await startServer({ nativeSpawn: false, logLevel: 'error' });
    const other = await fallback.connect();
    expect((await other.call('environment/info', {})).capabilities).toMatchObject({
      pty: false,
      processResize: false,
    });
    await other.call('process/start', { ...shell('p', 'cat; exit 3'), pipeStdin: true });
    await other.call('process/write', { processId: 'p', chunk: base64('hello\n'), writeId: '1' });
    await other.call('process/closeStdin', { processId: 'p' });
    const end = await other.closedProcess('p');
    expect([end.text(), end.exitCode]).toEqual(['hello\n', 3]);
    await expect(other.call('process/start', terminal('t', 'true'))).rejects.toMatchObject({
      code: -32603,
      message: expect.stringContaining('terminal'),
    });
    await fallback.close();
  });
});
