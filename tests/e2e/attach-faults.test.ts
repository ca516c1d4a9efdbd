import { once } from 'node:events';
import { type AddressInfo, connect as connectTcp, createServer, type Socket } from 'node:net';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import type { ExecProcess } from '../../src/client/backend.ts';
import { ExecServerClient } from '../../src/client/client.ts';
import { startServer, startServerProcess, TcpProxy, type TestServer } from '../../src/testing/index.ts';
import { connectOverProxy, connectTo, expectComplete, follow, roles } from '../support/attached-clients.ts';
import { type MessageAction, MessageProxy } from '../support/message-proxy.ts';
import { waitFor } from '../support/wait-for.ts';

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.close());

const connect = (clientName: string, url = server.url) => connectTo(url, clientName);

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
    await process.write('one\n');
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
  test('does not make a client follow again what it started and has detached from', async () => {
    const [observer, { client, cut }] = [
      await connect('observer'),
      await connectOverProxy(server.url, 'starter'),
    ];
    const started = await client.spawn(['cat'], { detached: true, pipeStdin: true });
    const ref = started.ref!;
    const attached = async () => (await observer.processes.get(ref)).attached;
    await started.write('one\n');
    await waitFor('the output', () => started.revision === 1);
    await started.detach();
    await cut();
    expect(await attached()).toEqual([]);
    const again = await client.attach(ref, { role: 'driver', afterSeq: 1 });
    const followed = follow(again);
    await again.write('two\n');
    await waitFor('the output', () => again.revision === 2);
    await cut();
    expect(await attached()).toEqual([{ client: 'starter', role: 'driver' }]);
    await again.write('three\n');
    await again.closeStdin();
    await followed.done;
    expect(followed.text()).toBe('two\nthree\n');
    expect(expectComplete(followed.events, 1)).toBe(0);
  });

  test('of a driver ends with the same role and nothing missing', async () => {
    const starter = await connect('starter');
    const { client, cut } = await connectOverProxy(server.url, 'driver');
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
    const { client, cut } = await connectOverProxy(server.url, 'driver');
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
    const { client, cut } = await connectOverProxy(server.url, 'driver');
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

test('attaching at any moment of the life of a process shows all of it', async () => {
  const driver = await connect('driver');
  const [near, far] = [await connect('near'), await connectOverProxy(server.url, 'far')];
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
