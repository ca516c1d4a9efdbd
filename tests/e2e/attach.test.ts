import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { WebSocket } from 'ws';
import { ExecServerClient as BrowserClient } from '../../src/client/browser.ts';
import { LocalEnvironment } from '../../src/environment/index.ts';
import { ATTACHMENTS_PER_CONNECTION } from '../../src/server/limits.ts';
import { startServer, type TestServer } from '../../src/testing/index.ts';
import { connectTo, expectComplete, follow, roles } from '../support/attached-clients.ts';
import { waitFor } from '../support/wait-for.ts';

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.close());

const connect = (clientName: string) => connectTo(server.url, clientName);

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
    expect(his.state.failure).toMatchObject({ kind: 'closed' });
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
    const refused = environment.spawn(['cat'], { detached: true });
    await expect(refused).rejects.toMatchObject({ kind: 'unsupported', message: /cannot start detached/ });
    await environment.spawn(['cat'], { name: 'local-job', pipeStdin: true });
    const found = await environment.attach('local-job');
    expect(found.role).toBe('driver');
    expect((await environment.processes.list()).map(({ name }) => name)).toEqual(['local-job']);
    expect(await environment.processes.terminate('local-job')).toBe(true);
    expect(await found.wait()).toMatchObject({ exitCode: 137 });
  });
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
