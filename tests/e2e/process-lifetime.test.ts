import { afterAll, beforeAll, expect, test } from 'vitest';
import { ExecServerClient } from '../../src/client/index.ts';
import { LocalEnvironment } from '../../src/environment/index.ts';
import { startServer, type TestServer } from '../../src/testing/index.ts';
import { waitFor } from '../support/wait-for.ts';

let server: TestServer;
let observer: ExecServerClient;
beforeAll(async () => {
  server = await startServer({ maxProcessesPerConnection: 2, maxDetachedRetentionMs: 1_000 });
  observer = await ExecServerClient.connect({ url: server.url });
});
afterAll(async () => {
  await observer.close();
  await server.close();
});

/** A client whose session ends with its connection. */
const connect = () => ExecServerClient.connect({ url: server.url, detachedSessionTtlMs: 0 });

test('keepRunning lets a process outlive its client, and the end of its scope', async () => {
  const client = await connect();
  const left = await client.spawn('read line; echo got $line; exit 4', { pipeStdin: true, name: 'left' });
  const ended = await client.spawn('sleep 60', {});
  await left.keepRunning();
  await left[Symbol.asyncDispose]();
  await client.close();
  const found = await observer.attach('left', { role: 'driver' });
  expect(await observer.processes.get('left')).toMatchObject({ lifetime: 'detached', state: 'running' });
  await found.write('it\n');
  expect(await found.wait()).toMatchObject({ exitCode: 4 });
  expect((await found.read()).chunks.map(({ bytes }) => Buffer.from(bytes).toString())).toEqual(['got it\n']);
  await waitFor('the end of the other process', async () =>
    (await observer.processes.list()).every(({ ref }) => ref !== ended.ref),
  );
});

test('a process that has ended, and one at the limit of its owner, stay as they are', async () => {
  const client = await connect();
  const ended = await client.spawn('exit 0');
  await ended.wait();
  await expect(ended.keepRunning()).rejects.toThrow(/has ended; its lifetime cannot change/);
  const detached = await Promise.all([1, 2].map(() => client.spawn('sleep 60', { detached: true })));
  const process = await client.spawn('sleep 60');
  await expect(process.keepRunning()).rejects.toThrow('this owner has 2 running processes');
  expect(await observer.processes.get(process.ref!)).toMatchObject({ lifetime: 'session' });
  await Promise.all([...detached, process].map((each) => each.terminate()));
  await client.close();
});

test('invalid options change nothing', async () => {
  const client = await connect();
  const process = await client.spawn('sleep 60');
  for (const options of [{ retainMs: -1 }, { retainMs: '1' }, { retainFor: 1 }]) {
    await expect(process.keepRunning(options as object)).rejects.toMatchObject({ kind: 'invalidInput' });
  }
  expect(await observer.processes.get(process.ref!)).toMatchObject({ lifetime: 'session' });
  await client.close();
});

test('a local environment cannot keep a program running', async () => {
  await using environment = new LocalEnvironment();
  const process = await environment.spawn('sleep 60');
  await expect(process.keepRunning()).rejects.toMatchObject({ kind: 'unsupported' });
  await process.terminate();
});
