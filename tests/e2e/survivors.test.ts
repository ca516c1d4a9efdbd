import { afterEach, describe, expect, test } from 'vitest';
import { startServer, startServerProcess, type TestClient } from '../../src/testing/index.ts';
import { childrenOf, descriptorsOf, isAlive, processesWith } from '../support/machine.ts';
import { base64, plain, shell } from '../support/programs.ts';
import { waitFor } from '../support/wait-for.ts';

const servers: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

/** How a descendant tries to survive. Each program starts one and stays or exits; `sleep MARK` must die. */
const TREES: readonly (readonly [string, (mark: string) => string])[] = [
  ['a grandchild that holds stdout', (mark) => `sleep ${mark} & exec sleep ${mark}`],
  ['a grandchild in a session of its own', (mark) => `setsid sleep ${mark} & exec sleep ${mark}`],
  [
    'a daemon that forked twice',
    (mark) => `(setsid sh -c 'sleep ${mark} & sleep ${mark} &' &) ; exec sleep ${mark}`,
  ],
  [
    'a daemon that closed its streams',
    (mark) => `(setsid sleep ${mark} </dev/null >/dev/null 2>&1 &) ; exec sleep ${mark}`,
  ],
  ['a program that ignores TERM', (mark) => `trap '' TERM HUP INT; sleep ${mark}; sleep ${mark}`],
];

let counter = 0;

/** A duration that no other process on the machine uses. */
function uniqueMark(): string {
  return `${100_000 + (process.pid % 10_000)}.${String(++counter).padStart(4, '0')}`;
}

async function startTree(
  client: TestClient,
  id: string,
  script: string,
  mark: string,
  tty: boolean,
): Promise<void> {
  await client.call('process/start', { ...shell(id, script), tty });
  await waitFor('the tree to stand', () => processesWith(`sleep ${mark}`).length >= 1);
}

describe.each([
  ['pipe', false],
  ['terminal', true],
])('on a %s, terminate kills', (_kind, tty) => {
  test.each(TREES)('%s', async (_name, script) => {
    const server = await startServer();
    servers.push(server);
    const client = await server.connect();
    const mark = uniqueMark();
    await startTree(client, 'p', script(mark), mark, tty);
    expect(await client.call('process/terminate', { processId: 'p' })).toEqual({ running: true });
    expect((await client.closedProcess('p')).exitCode).toBe(137);
    await waitFor('the tree to be gone', () => processesWith(`sleep ${mark}`).length === 0);
  });

  test('the rest after the leader has exited', async () => {
    const server = await startServer();
    servers.push(server);
    const client = await server.connect();
    const mark = uniqueMark();
    const script = `setsid sleep ${mark} & read go; exit 4`;
    await client.call('process/start', { ...shell('p', script), tty, pipeStdin: true });
    await waitFor('the tree to stand', () => processesWith(`sleep ${mark}`).length >= 1);
    await client.call('process/write', { processId: 'p', chunk: base64('\n'), writeId: '1' });
    await client.waitFor((message) => message.method === 'process/exited');
    expect(await client.call('process/terminate', { processId: 'p' })).toEqual({ running: false });
    expect((await client.closedProcess('p')).exitCode).toBe(4);
    await waitFor('the tree to be gone', () => processesWith(`sleep ${mark}`).length === 0);
  });
});

describe('nothing survives', () => {
  test.each(TREES)('a server killed by SIGKILL: %s', async (_name, script) => {
    const server = await startServerProcess();
    const client = await server.connect();
    const mark = uniqueMark();
    await startTree(client, 'p', script(mark), mark, false);
    await startTree(client, 't', script(mark), mark, true);
    server.process.kill('SIGKILL');
    await client.closed;
    await waitFor('every descendant to be gone', () => processesWith(`sleep ${mark}`).length === 0);
  });

  test('a server that gets SIGTERM, not even what ignores it, and the server reports its end', async () => {
    const server = await startServerProcess(['--shutdown-grace-period', '100ms']);
    const client = await server.connect();
    const mark = uniqueMark();
    await startTree(
      client,
      'p',
      `trap '' TERM; setsid sleep ${mark} & sleep ${mark}; sleep ${mark}`,
      mark,
      false,
    );
    server.process.kill('SIGTERM');
    expect(await client.closed).toMatchObject({ code: 1001 });
    expect(client.process('p').exitCode).toBe(137);
    expect(client.process('p').complete).toBe(true);
    await waitFor('the server to exit', () => server.process.exitCode !== null);
    expect(server.process.exitCode).toBe(0);
    expect(processesWith(`sleep ${mark}`)).toEqual([]);
  });

  test('an expired session', async () => {
    const server = await startServer({ detachedSessionTtlMs: 0 });
    servers.push(server);
    const client = await server.connect();
    const mark = uniqueMark();
    await startTree(client, 'p', `setsid sleep ${mark} & exec sleep ${mark}`, mark, false);
    await client.drop();
    await waitFor('the tree to be gone', () => processesWith(`sleep ${mark}`).length === 0);
  });

  test('does not touch other servers', async () => {
    const [doomed, healthy] = await Promise.all([startServerProcess(), startServerProcess()]);
    servers.push(healthy);
    const [first, second] = await Promise.all([doomed.connect(), healthy.connect()]);
    const [mark, kept] = [uniqueMark(), uniqueMark()];
    await startTree(first, 'p', `setsid sleep ${mark} & exec sleep ${mark}`, mark, false);
    await startTree(second, 'p', `setsid sleep ${kept} & exec sleep ${kept}`, kept, false);
    const survivors = processesWith(`sleep ${kept}`);
    doomed.process.kill('SIGKILL');
    await waitFor('the doomed tree to be gone', () => processesWith(`sleep ${mark}`).length === 0);
    expect(survivors.length).toBe(2);
    expect(survivors.every(isAlive)).toBe(true);
  });
});

describe('a program left in the background on purpose', () => {
  test('survives the terminate of the closed process, and ends with the server', async () => {
    const server = await startServerProcess();
    const client = await server.connect();
    const mark = uniqueMark();
    const script = `nohup sleep ${mark} </dev/null >/dev/null 2>&1 & echo up`;
    await client.call('process/start', shell('p', script));
    await client.closedProcess('p');
    expect(await client.call('process/terminate', { processId: 'p' })).toEqual({ running: false });
    // A kill, if there was one, would take effect during a later start and end.
    await client.call('process/start', shell('q', 'sleep 600'));
    await client.call('process/terminate', { processId: 'q' });
    await client.closedProcess('q');
    expect(processesWith(`sleep ${mark}`).length).toBe(1);
    await server.close();
    expect(processesWith(`sleep ${mark}`)).toEqual([]);
  });
});

describe('terminate', () => {
  test('graceful lets a program clean up, and kills it if it does not exit', async () => {
    const server = await startServer();
    servers.push(server);
    const client = await server.connect();
    const polite = "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.01; done";
    await client.call('process/start', shell('polite', polite));
    await client.call('process/start', shell('rude', "trap '' TERM; echo up; while :; do sleep 0.01; done"));
    await client.waitFor((message) => isOutputOf(message, 'polite'));
    await client.waitFor((message) => isOutputOf(message, 'rude'));
    const graceful = (timeoutMs: number) => ({ mode: { type: 'graceful' as const, timeoutMs } });
    await client.call('process/terminate', { processId: 'polite', ...graceful(60_000) });
    await client.call('process/terminate', { processId: 'rude', ...graceful(50) });
    const end = await client.closedProcess('polite');
    expect([end.text('stdout'), end.exitCode]).toEqual(['up\nbye\n', 0]);
    expect((await client.closedProcess('rude')).exitCode).toBe(137);
  });

  test('graceful also ends processes that hold the output of an exited program', async () => {
    const server = await startServer();
    servers.push(server);
    const client = await server.connect();
    const polite = "(trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.01; done) & exit 3";
    await client.call('process/start', shell('polite', polite));
    await client.call('process/start', shell('rude', "(trap '' TERM; echo up; sleep 600) & exit 3"));
    for (const [processId, timeoutMs, text] of [
      ['polite', 60_000, 'up\nbye\n'],
      ['rude', 50, 'up\n'],
    ] as const) {
      await client.waitFor((message) => isOutputOf(message, processId));
      await client.call('process/wait', { processId, until: 'exited' });
      const mode = { type: 'graceful' as const, timeoutMs };
      expect(await client.call('process/terminate', { processId, mode })).toEqual({ running: false });
      const end = await client.closedProcess(processId);
      expect([end.text('stdout'), end.exitCode]).toEqual([text, 3]);
    }
  });

  test('leaves no descriptor, zombie or process after 1,000 cycles', async () => {
    const server = await startServerProcess(['--closed-process-retention', '0']);
    servers.push(server);
    const client = await server.connect();
    const mark = uniqueMark();
    const cycle = async (id: string, tty: boolean) => {
      await client.call('process/start', { processId: id, argv: ['sleep', mark], ...plain, tty });
      await client.call('process/terminate', { processId: id });
      expect((await client.closedProcess(id)).exitCode).toBe(137);
    };
    await cycle('warm-pipe', false);
    await cycle('warm-pty', true);
    const pid = server.process.pid!;
    const before = { fds: descriptorsOf(pid).length, children: childrenOf(pid).length };
    for (let round = 0; round < 1000; round += 10) {
      await Promise.all(Array.from({ length: 10 }, (_, i) => cycle(`p${round + i}`, i % 2 === 0)));
    }
    expect(processesWith(`sleep ${mark}`)).toEqual([]);
    await waitFor('descriptors to be closed', () => descriptorsOf(pid).length <= before.fds);
    expect(childrenOf(pid).length).toBe(before.children);
    await waitFor('closed processes to be forgotten', async () => {
      const { processes } = await client.call('process/list', {});
      return processes.length === 0;
    });
  });
});

function isOutputOf(message: Readonly<Record<string, unknown>>, processId: string): boolean {
  const params = message.params as { processId?: string } | undefined;
  return message.method === 'process/output' && params?.processId === processId;
}
