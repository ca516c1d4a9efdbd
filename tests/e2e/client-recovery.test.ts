import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, describe, expect, test } from 'vitest';
import type { ExecProcess, ProcessEvent } from '../../src/client/backend.ts';
import { ExecServerClient } from '../../src/client/client.ts';
import { RemoteFileSystem } from '../../src/client/files/remote-file-system.ts';
import type { ExecServerConfig } from '../../src/server/config/config.ts';
import { startServer, TcpProxy } from '../../src/testing/index.ts';
import { shell, terminal } from '../support/programs.ts';
import { waitFor } from '../support/wait-for.ts';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

/** A server, a connection that the test can disturb, a client, and a file that lets waiting programs continue. */
async function setUp(options: { recoveryWindowMs?: number } = {}, config: Partial<ExecServerConfig> = {}) {
  const server = await startServer(config);
  const proxy = await TcpProxy.open(server.url);
  const client = await ExecServerClient.connect({ url: proxy.url, ...options });
  const folder = mkdtempSync(join(tmpdir(), 'client-recovery-'));
  cleanups.push(
    () => server.close(),
    () => proxy.close(),
    () => client.close(),
    () => rmSync(folder, { recursive: true }),
  );
  const gate = `while [ ! -e ${folder}/go ]; do sleep 0.01; done`;
  return { server, proxy, client, gate, release: () => writeFileSync(join(folder, 'go'), '') };
}

function follow(process: ExecProcess) {
  const events: ProcessEvent[] = [];
  const done = (async () => {
    for await (const event of process.events()) events.push(event);
  })();
  const text = (stream: string) =>
    Buffer.concat(
      events.flatMap((event) => (event.type === 'output' && event.stream === stream ? [event.bytes] : [])),
    ).toString();
  return { events, done, text };
}

describe('an outage', () => {
  test('within the recovery window loses nothing, including events at its end', async () => {
    const { proxy, client, gate, release } = await setUp();
    const process = await client.backend.start(
      shell('p', `echo before; ${gate}; echo during; echo too >&2; exit 5`),
    );
    const { events, done, text } = follow(process);
    await waitFor('the first output', () => process.revision === 1);
    proxy.interrupt();
    await waitFor('the loss', () => client.state === 'recovering');
    release();
    const asked = client.call('fs/getMetadata', { path: 'file:///' });
    await delay(700);
    expect(client.state).toBe('recovering');
    proxy.restore();
    await done;
    expect(text('stdout')).toBe('before\nduring\n');
    expect(text('stderr')).toBe('too\n');
    expect(events.find(({ type }) => type === 'exited')).toMatchObject({ exitCode: 5 });
    expect(await asked).toMatchObject({ isDirectory: true });
  });

  test('longer than the recovery window fails the client with a reason and leaves nothing waiting', async () => {
    const { proxy, client } = await setUp({ recoveryWindowMs: 300 });
    const process = await client.backend.start({ ...shell('p', 'cat'), pipeStdin: true });
    const { events, done } = follow(process);
    proxy.interrupt();
    const calls = [
      process.write('x'),
      process.closeStdin(),
      client.call('process/list', {}),
      process.terminate(),
    ];
    for (const outcome of await Promise.allSettled(calls)) {
      expect(outcome).toMatchObject({ status: 'rejected', reason: { name: 'ClientError' } });
    }
    await done;
    expect(client.state).toBe('failed');
    expect(client.failure).toMatchObject({ kind: 'disconnected', hint: expect.any(String) });
    expect(client.failure!.message).toContain('could not be restored');
    expect(events).toEqual([{ type: 'failed', error: client.failure }]);
  });

  test('longer than the recovery window makes every later operation fail with the reason', async () => {
    const { proxy, client } = await setUp({ recoveryWindowMs: 300 });
    const process = await client.backend.start({ ...terminal('p', 'cat') });
    const files = new RemoteFileSystem(client);
    proxy.interrupt();
    await waitFor('the final failure', () => client.state === 'failed');
    const reason = expect.stringContaining('could not be restored');
    expect(await process.read()).toMatchObject({ closed: true, failure: reason });
    const request = { method: 'GET', url: 'http://127.0.0.1:1/' };
    const calls = {
      start: () => client.backend.start(shell('q', 'true')),
      write: () => process.write('x'),
      closeStdin: () => process.closeStdin(),
      signal: () => process.signal('INT'),
      resize: () => process.resize(40, 100),
      terminate: () => process.terminate(),
      request: () => client.http.request(request),
      stream: () => client.http.stream(request),
      status: () => client.call('environment/status', {}),
    };
    const fileCalls = {
      readFile: () => files.readFile('file:///etc/hostname'),
      readFileStream: async () => {
        for await (const _ of files.readFileStream('file:///etc/hostname'));
      },
      writeFile: () => files.writeFile('file:///nowhere/x', 'x'),
      getMetadata: () => files.getMetadata('file:///'),
      readDirectory: () => files.readDirectory('file:///'),
      createDirectory: () => files.createDirectory('file:///nowhere/x'),
      remove: () => files.remove('file:///nowhere/x'),
      copy: () => files.copy('file:///nowhere/x', 'file:///nowhere/y', { recursive: false }),
      rename: () => files.rename('file:///nowhere/x', 'file:///nowhere/y'),
      list: () => files.list(['file:///']),
      setAttributes: () => files.setAttributes('file:///nowhere/x', { mode: 0 }),
      createLink: () => files.createLink('file:///nowhere/x', 'y'),
      watch: () => files.watch('file:///'),
    };
    const all: [string, Record<string, () => Promise<unknown>>][] = [
      ['disconnected', calls],
      ['brokenPipe', fileCalls],
    ];
    for (const [kind, group] of all) {
      for (const [name, call] of Object.entries(group)) {
        const failure = { name: 'ClientError', kind, message: reason };
        await expect(call(), name).rejects.toMatchObject(failure);
      }
    }
  });

  test('that outlives the session fails the client as soon as the server is back', async () => {
    const { proxy, client } = await setUp({}, { detachedSessionTtlMs: 50 });
    const process = await client.backend.start(shell('p', 'sleep 600'));
    proxy.interrupt();
    await delay(300);
    proxy.restore();
    await waitFor('the end', () => client.state === 'failed');
    expect(client.failure).toMatchObject({ kind: 'disconnected', code: -32600 });
    expect(process.state.failure).toBe(client.failure);
  });

  test('longer than the output retention reports the exact number of lost bytes', async () => {
    const { proxy, client, gate, release } = await setUp();
    const script = `printf start; ${gate}; head -c 5000000 /dev/zero; printf end; sleep 0.2; printf more; exit 4`;
    const process = await client.backend.start(shell('p', script));
    const sibling = await client.backend.start({ ...shell('q', 'cat'), pipeStdin: true });
    const { events, done } = follow(process);
    await waitFor('the first output', () => process.revision === 1);
    proxy.interrupt();
    await waitFor('the loss', () => client.state === 'recovering');
    release();
    await delay(600);
    proxy.restore();
    await done;
    const lost = events.filter((event) => event.type === 'lost');
    expect(lost).toHaveLength(1);
    expect(lost[0]!.fromSeq).toBe(2);
    const had = events.reduce((sum, event) => sum + (event.type === 'output' ? event.bytes.length : 0), 0);
    expect(lost[0]!.bytes! + had).toBe(5_000_000 + 'startendmore'.length);
    expect(events.find(({ type }) => type === 'exited')).toMatchObject({ exitCode: 4 });
    expect(sibling.state.failure).toBeNull();
    await sibling.write('alive\n');
    await waitFor('the echo', () => sibling.revision === 1);
  });
});

describe('many outages', () => {
  test('lose, repeat and reorder nothing for several concurrent programs', async () => {
    const { proxy, client } = await setUp();
    const script = 'i=0; while read line; do i=$((i+1)); echo "$i:$line"; echo "e$i" >&2; done; echo done';
    const rounds = 60;
    const programs = await Promise.all(
      ['a', 'b', 'c'].map((id) => client.backend.start({ ...shell(id, script), pipeStdin: true })),
    );
    const followed = programs.map(follow);
    for (let round = 0; round < rounds; round++) {
      const writes = programs.map((process) => process.write(`round ${round}\n`));
      if (round % 3 !== 0) await Promise.race(writes);
      proxy.drop();
      if (round % 2 === 0) await Promise.all(writes);
    }
    for (const process of programs) expect(await process.closeStdin()).toBe(true);
    for (const { done, text, events } of followed) {
      await done;
      const lines = Array.from({ length: rounds }, (_, i) => `${i + 1}:round ${i}\n`).join('');
      expect(text('stdout')).toBe(`${lines}done\n`);
      expect(text('stderr')).toBe(Array.from({ length: rounds }, (_, i) => `e${i + 1}\n`).join(''));
      expect(events.map((event) => (event as { seq: number }).seq)).toEqual(
        events.map((_, index) => index + 1),
      );
    }
  });
});

describe('another client', () => {
  test('can take over the session', async () => {
    const { server, client } = await setUp();
    await client.backend.start({ ...shell('p', 'cat'), pipeStdin: true });
    await client.close();
    const next = await ExecServerClient.connect({ url: server.url, resumeSessionId: client.sessionId });
    expect(next.sessionId).toBe(client.sessionId);
    expect((await next.call('process/list', {})).processes).toMatchObject([
      { processId: 'p', state: 'running' },
    ]);
    await next.call('process/terminate', { processId: 'p' });
    await next.close();
  });
});
