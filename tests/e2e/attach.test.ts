import { once } from 'node:events';
import { type AddressInfo, connect as connectTcp, createServer, type Socket } from 'node:net';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { WebSocket } from 'ws';
import type { ExecProcess, ProcessEvent } from '../../src/client/backend.ts';
import { ExecServerClient as BrowserClient } from '../../src/client/browser.ts';
import { ExecServerClient } from '../../src/client/client.ts';
import type { ProcessAttachment } from '../../src/client/sharing.ts';
import { LocalEnvironment } from '../../src/environment/index.ts';
import { ATTACHMENTS_PER_CONNECTION } from '../../src/server/limits.ts';
import { startServer, startServerProcess, TcpProxy, type TestServer } from '../../src/testing/index.ts';
import { useEmptyHome } from '../support/empty-home.ts';
import { type MessageAction, MessageProxy } from '../support/message-proxy.ts';
import { waitFor } from '../support/wait-for.ts';

useEmptyHome();

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.close());

async function connect(clientName: string, url = server.url): Promise<ExecServerClient> {
  const client = await ExecServerClient.connect({ url, clientName });
  onTestFinished(() => client.close());
  return client;
}

/** A client over a connection that the test can cut. */
async function connectOverProxy(clientName: string) {
  const proxy = await TcpProxy.open(server.url);
  const client = await connect(clientName, proxy.url);
  onTestFinished(() => proxy.close());
  const cut = async (meanwhile: () => Promise<unknown> = async () => {}) => {
    proxy.interrupt();
    await waitFor('the loss', () => client.state === 'recovering');
    await meanwhile();
    proxy.restore();
    await waitFor('the recovery', () => client.state === 'connected');
  };
  return { client, cut };
}

/** Collects the events of a process and the changes of its attachment. */
function follow(process: ExecProcess) {
  const events: ProcessEvent[] = [];
  const changes: ProcessAttachment[] = [];
  process.onAttachmentChange((change) => changes.push(change));
  const done = (async () => {
    for await (const event of process.events()) events.push(event);
  })();
  const text = () =>
    Buffer.concat(events.flatMap((event) => (event.type === 'output' ? [event.bytes] : []))).toString();
  return { events, changes, done, text };
}

/** Checks that no event is missing or repeated. Returns the number of lost bytes. */
function expectComplete(events: readonly ProcessEvent[], afterSeq = 0): number {
  let next = afterSeq + 1;
  let lostBytes = 0;
  for (const event of events) {
    if (event.type === 'failed') throw event.error;
    expect(event.type === 'lost' ? event.fromSeq : event.seq).toBe(next);
    next = (event.type === 'lost' ? event.toSeq : event.seq) + 1;
    if (event.type === 'lost') lostBytes += event.bytes ?? Number.NaN;
  }
  expect(events.at(-1)?.type).toBe('closed');
  expect(events.filter(({ type }) => type === 'exited')).toHaveLength(1);
  return lostBytes;
}

const roles = (changes: readonly ProcessAttachment[]) =>
  changes.flatMap(({ role, reason }) => (reason === null ? [] : [`${role} ${reason}`]));

describe('two clients', () => {
  test('share a terminal: one drives, one watches, and they take over', async () => {
    const [ann, bob] = [await connect('ann'), await connect('bob')];
    const hers = await ann.spawn(['cat'], { tty: true, name: 'shared-terminal' });
    const his = await bob.attach('shared-terminal');
    const [she, he] = [follow(hers), follow(his)];
    expect([hers.role, his.role]).toEqual(['driver', 'viewer']);
    expect(his).toMatchObject({ ref: hers.ref, name: 'shared-terminal' });
    await hers.write('one\n');
    await waitFor('the echo', () => he.text().includes('one') && she.text() === he.text());
    await expect(his.write('two\n')).rejects.toMatchObject({
      kind: 'conflict',
      message: expect.stringContaining('ann'),
    });
    await expect(bob.attach(hers.ref!, { role: 'driver' })).rejects.toMatchObject({ kind: 'conflict' });
    await his.takeOver();
    expect(his.role).toBe('driver');
    await waitFor('her new role', () => hers.role === 'viewer');
    await expect(hers.write('three\n')).rejects.toMatchObject({ message: expect.stringContaining('bob') });
    await his.resize(40, 100);
    await his.write('four\n');
    await waitFor('the echo', () => she.text().includes('four') && she.text() === he.text());
    expect(she.text()).not.toMatch(/two|three/);
    expect(hers.attachedClients).toEqual([
      { client: 'bob', role: 'driver' },
      { client: 'ann', role: 'viewer' },
    ]);
    await his.detach();
    await waitFor('her old role', () => hers.role === 'driver');
    expect(roles(she.changes)).toEqual(['viewer takenOver', 'driver driverLeft']);
    await hers.write('\x04');
    await she.done;
    expectComplete(she.events);
    expect(he.events.at(-1)).toMatchObject({ type: 'failed', error: { kind: 'closed' } });
  });

  test('see the same screen, and the output after it', async () => {
    const [ann, bob] = [await connect('ann'), await connect('bob')];
    const script = 'printf "\\033[2J\\033[Hfirst"; read x; printf "\\033[3;5Hthird"; read x';
    const hers = await ann.spawn(['sh', '-c', script], { tty: { rows: 10, cols: 40 } });
    await waitFor('the first screen', async () => (await hers.screen()).text.includes('first'));
    const his = await bob.attach(hers.ref!, { screen: true });
    const followed = follow(his);
    await hers.write('\n');
    await waitFor('the second screen', async () => (await his.screen()).text.includes('third'));
    await hers.write('\n');
    await followed.done;
    const [first, ...rest] = followed.events;
    expect(first).toMatchObject({ type: 'screen', screen: { rows: 10, cols: 40, exact: true } });
    expect(first?.type === 'screen' && first.screen.text.trimEnd()).toBe('first');
    expectComplete(rest, first?.type === 'screen' ? first.seq : 0);
    expect(followed.text()).toContain('third');
    expect(followed.text()).not.toContain('first');
    const late = follow(await bob.attach(hers.ref!, { screen: true }));
    await late.done;
    expect(late.events.map(({ type }) => type).filter((type) => type !== 'exited')).toEqual([
      'screen',
      'closed',
    ]);
  });

  test('can be a program and a browser', async () => {
    // Node 20 has no WebSocket of its own.
    if (globalThis.WebSocket === undefined) vi.stubGlobal('WebSocket', WebSocket);
    onTestFinished(() => void vi.unstubAllGlobals());
    const ann = await connect('ann');
    const browser = await BrowserClient.connect({ url: server.url, clientName: 'browser' });
    onTestFinished(() => browser.close());
    const started = await ann.spawn(['cat'], { pipeStdin: true });
    const watched = follow(await browser.attach(started.ref!));
    await started.write('hello\n');
    await started.closeStdin();
    await watched.done;
    expect(watched.text()).toBe('hello\n');
    expectComplete(watched.events);
  });
});

describe('a detached process', () => {
  test('is picked up by another client, with all its output and its exit code', async () => {
    const before = await connect('before');
    const job = await before.spawn('echo one; echo two >&2; exit 3', { detached: true, name: 'job-1' });
    const { ref } = job;
    await before.close();
    const after = await connect('after');
    const found = await after.attach('job-1');
    const events = follow(found);
    await events.done;
    expect(found.ref).toBe(ref);
    expect(found.state).toMatchObject({ exitCode: 3, closed: true });
    expectComplete(events.events);
    expect(events.text().split('\n').sort()).toEqual(['', 'one', 'two']);
    expect(await after.processes.get('job-1')).toMatchObject({ ref, exitCode: 3, lifetime: 'detached' });
    const { seq } = events.events.at(-1) as { seq: number };
    const rest = follow(await after.attach(ref!, { afterSeq: seq - 1 }));
    await rest.done;
    expect(rest.events).toEqual([{ type: 'closed', seq }]);
    const end = follow(await after.attach(ref!, { afterSeq: seq }));
    await end.done;
    expect(end.events).toEqual(rest.events);
    await expect(after.attach(ref!, { afterSeq: seq + 1 })).rejects.toMatchObject({ kind: 'invalidInput' });
  });

  test('that is no longer retained is reported with the time of its end', async () => {
    const client = await connect('c');
    const job = await client.spawn(['true'], { detached: { retainMs: 0 }, name: 'gone' });
    await job.wait();
    for (const wanted of [job.ref!, 'gone']) {
      const error = await waitFor('the removal', () =>
        client.attach(wanted).then(
          (process) => process.detach().then(() => null),
          (failure: unknown) => failure,
        ),
      );
      expect(error).toMatchObject({
        kind: 'notFound',
        message: expect.stringMatching(/exited with code 0 and closed at .+; its output was removed at/),
      });
    }
    await expect(client.attach('never-was')).rejects.toMatchObject({ kind: 'notFound' });
  });

  test('is listed, signalled and terminated by name', async () => {
    const [one, other] = [await connect('one'), await connect('other')];
    await one.spawn(['sleep', '600'], { detached: true, name: 'sleeper' });
    await one.spawn(['sleep', '600'], { detached: true, name: 'sleeper-2' });
    const names = (await other.processes.list()).map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(['sleeper', 'sleeper-2']));
    expect(await other.processes.list({ scope: 'session' })).toEqual([]);
    await other.processes.signal('sleeper', 'SIGTERM');
    expect(await other.processes.terminate('sleeper-2')).toBe(true);
    for (const [name, exitCode] of [
      ['sleeper', 143],
      ['sleeper-2', 137],
    ] as const)
      expect(await (await other.attach(name)).wait()).toMatchObject({ exitCode });
  });

  test('of a local environment is found by name', async () => {
    const environment = new LocalEnvironment();
    onTestFinished(() => environment.dispose());
    await environment.spawn(['cat'], { detached: true, name: 'local-job', pipeStdin: true });
    const found = await environment.attach('local-job');
    expect(found.role).toBe('driver');
    expect((await environment.processes.list()).map(({ name }) => name)).toEqual(['local-job']);
    expect(await environment.processes.terminate('local-job')).toBe(true);
    expect(await found.wait()).toMatchObject({ exitCode: 137 });
  });
});

describe('a connection that is cut at any message', () => {
  /** Drives a `cat` over a connection that is cut at one message. Returns the number of messages, or null. */
  const drive = async (cut: number, action: MessageAction, takenOver: boolean) => {
    const [starter, other] = [await connect('starter'), await connect('other')];
    const { ref } = await starter.spawn(['cat'], { detached: true, pipeStdin: true });
    await starter.close();
    const proxy = await MessageProxy.open(server.url, ({ connection, index }) =>
      connection === 0 && index === cut ? action : 'pass',
    );
    onTestFinished(() => proxy.close());
    const client = await connect('driver', proxy.url);
    const process = await client.attach(ref!, { role: 'driver' });
    const followed = follow(process);
    expect(await process.write('one\n')).toBe('accepted');
    const driver = takenOver ? await other.attach(ref!, { takeOver: true }) : process;
    if (takenOver) {
      await waitFor('the new role', () => process.role === 'viewer');
      await expect(process.write('refused\n')).rejects.toMatchObject({ kind: 'conflict' });
      await driver.write('two\n');
    }
    await driver.closeStdin();
    await followed.done;
    expect(followed.text()).toBe(takenOver ? 'one\ntwo\n' : 'one\n');
    expectComplete(followed.events);
    if (takenOver) expect(roles(followed.changes)).toEqual(['viewer takenOver']);
    return proxy.log.length;
  };
  const HANDSHAKE = 3;

  test.each([false, true])('writes once and misses nothing; taken over meanwhile: %s', async (takenOver) => {
    const messages = await drive(-1, 'pass', takenOver);
    expect(messages).toBeGreaterThan(HANDSHAKE + 6);
    for (let cut = HANDSHAKE; cut < messages; cut++)
      for (const action of ['swallow', 'last'] as const) await drive(cut, action, takenOver);
  });
});

describe('a lost connection', () => {
  test('of a driver ends with the same role and nothing missing', async () => {
    const starter = await connect('starter');
    const { client, cut } = await connectOverProxy('driver');
    const { ref } = await starter.spawn(['cat'], { detached: true, pipeStdin: true });
    await starter.close();
    const process = await client.attach(ref!, { role: 'driver' });
    const followed = follow(process);
    await process.write('one\n');
    await cut();
    expect(process.role).toBe('driver');
    await process.write('two\n');
    await process.closeStdin();
    await followed.done;
    expect(followed.text()).toBe('one\ntwo\n');
    expectComplete(followed.events);
    expect(roles(followed.changes)).toEqual([]);
  });

  test('of a driver whose process was taken over leaves a viewer that knows it', async () => {
    const other = await connect('other');
    const { client, cut } = await connectOverProxy('driver');
    const process = await client.spawn(['cat'], { detached: true, pipeStdin: true });
    const attached = await client.attach(process.ref!, { role: 'driver' });
    const followed = follow(attached);
    let theirs!: ExecProcess;
    await cut(async () => {
      theirs = await other.attach(process.ref!, { takeOver: true });
      await theirs.write('theirs\n');
    });
    await waitFor('the role', () => attached.role === 'viewer');
    expect(roles(followed.changes).at(-1)).toBe('viewer takenOver');
    await theirs.closeStdin();
    await followed.done;
    expect(followed.text()).toBe('theirs\n');
    expectComplete(followed.events);
  });

  test('of an attached driver, taken over meanwhile, leaves a viewer too', async () => {
    const starter = await connect('starter');
    const other = await connect('other');
    const { client, cut } = await connectOverProxy('driver');
    const { ref } = await starter.spawn(['cat'], { detached: true, pipeStdin: true });
    await starter.close();
    const process = await client.attach(ref!, { role: 'driver' });
    const followed = follow(process);
    let theirs!: ExecProcess;
    await cut(async () => {
      theirs = await other.attach(ref!, { takeOver: true });
    });
    expect(process.role).toBe('viewer');
    expect(roles(followed.changes)).toEqual(['viewer takenOver']);
    await theirs.write('x');
    await theirs.closeStdin();
    await followed.done;
    expectComplete(followed.events);
  });

  test('to a server that restarts ends the events, and the new server has no such process', async () => {
    const first = await startServerProcess();
    const proxy = await TcpProxy.open(first.url);
    onTestFinished(() => proxy.close());
    const client = await ExecServerClient.connect({ url: proxy.url, recoveryWindowMs: 300 });
    onTestFinished(() => client.close());
    const { ref } = await client.spawn(['sleep', '600'], { detached: true });
    const followed = follow(await client.attach(ref!));
    first.process.kill('SIGKILL');
    await followed.done;
    expect(followed.events).toEqual([{ type: 'failed', error: client.failure }]);
    await expect((await connect('later')).attach(ref!)).rejects.toMatchObject({ kind: 'notFound' });
  });
});

/** Forwards to the server. While it stalls, nothing from the server reaches the client. */
async function stallingProxy() {
  const { hostname, port } = new URL(server.url);
  const upstreams: Socket[] = [];
  const listener = createServer((socket) => {
    const upstream = connectTcp(Number(port), hostname);
    upstreams.push(upstream);
    socket.on('error', () => upstream.destroy()).pipe(upstream);
    upstream.on('error', () => socket.destroy()).on('data', (data) => socket.write(data));
  });
  await once(listener.listen(0, '127.0.0.1'), 'listening');
  onTestFinished(() => {
    for (const upstream of upstreams) upstream.destroy();
    listener.close();
  });
  return {
    url: `ws://127.0.0.1:${(listener.address() as AddressInfo).port}`,
    stall: () => upstreams.map((upstream) => upstream.pause()),
    release: () => upstreams.map((upstream) => upstream.resume()),
  };
}

test('a viewer that stalls gets every byte or the number of lost bytes, and the driver all', async () => {
  const proxy = await stallingProxy();
  const [driver, viewer] = [await connect('driver'), await connect('viewer', proxy.url)];
  const size = 48 * 2 ** 20;
  const script = `read go; head -c ${size} /dev/zero; read end`;
  const process = await driver.spawn(['sh', '-c', script], { pipeStdin: true });
  const watched = await viewer.attach(process.ref!);
  const some = follow(watched);
  let received = 0;
  const reading = (async () => {
    for await (const event of process.events()) if (event.type === 'output') received += event.bytes.length;
  })();
  proxy.stall();
  await process.write('\n');
  await waitFor('all output at the driver', () => received === size);
  proxy.release();
  await process.write('\n');
  await Promise.all([reading, some.done]);
  const lostBytes = expectComplete(some.events);
  expect(lostBytes).toBeGreaterThan(0);
  expect(lostBytes + some.text().length).toBe(size);
});

test('a client attaches more often than a server allows at the same time', async () => {
  const [starter, client] = [await connect('starter'), await connect('client')];
  const running = await starter.spawn(['cat'], { pipeStdin: true });
  const refs = [];
  for (let count = 0; count <= ATTACHMENTS_PER_CONNECTION; count++) {
    await (await client.attach(running.ref!)).detach();
    refs.push((await starter.spawn(['true'], { detached: true })).ref!);
  }
  for (const ref of refs) expect(await (await client.attach(ref)).wait()).toMatchObject({ exitCode: 0 });
  expect((await starter.processes.get(running.ref!)).attached).toEqual([
    { client: 'starter', role: 'driver' },
  ]);
});

test('attaching at any moment of the life of a process shows all of it', async () => {
  const driver = await connect('driver');
  const [near, far] = [await connect('near'), await connectOverProxy('far')];
  const step = fc.oneof(
    {
      weight: 4,
      arbitrary: fc.record({ do: fc.constant('write' as const), bytes: fc.integer({ min: 1, max: 5000 }) }),
    },
    {
      weight: 3,
      arbitrary: fc.record({
        do: fc.constant('attach' as const),
        far: fc.boolean(),
        after: fc.double({ min: 0, max: 1, noNaN: true }),
      }),
    },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('cut' as const) }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('exit' as const) }) },
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 14 }), async (steps) => {
      const process = await driver.spawn(['cat'], { pipeStdin: true, detached: true });
      const whole = follow(process);
      const followed: Promise<{ afterSeq: number; watched: ReturnType<typeof follow> }>[] = [];
      let [written, ended] = ['', false];
      for (const one of [
        ...steps,
        { do: 'exit' as const },
        { do: 'attach' as const, far: false, after: 0 },
      ]) {
        if (one.do === 'write' && !ended) {
          const text = `${written.length} `.padEnd(one.bytes, '.');
          written += text;
          await process.write(text);
        } else if (one.do === 'exit' && !ended) {
          ended = true;
          await process.closeStdin();
        } else if (one.do === 'cut') {
          await far.cut();
        } else if (one.do === 'attach') {
          const client = one.far ? far.client : near;
          const afterSeq = Math.floor(one.after * process.revision);
          const attaching = client.attach(process.ref!, { afterSeq });
          followed.push(attaching.then((handle) => ({ afterSeq, watched: follow(handle) })));
        }
      }
      await whole.done;
      expect(whole.text()).toBe(written);
      for (const { afterSeq, watched } of await Promise.all(followed)) {
        await watched.done;
        const from = whole.events.findIndex((event) => 'seq' in event && event.seq === afterSeq) + 1;
        const last = whole.events.length - 1;
        expect(watched.events).toEqual(whole.events.slice(Math.min(from, last)));
      }
    }),
    { numRuns: 25 },
  );
});
