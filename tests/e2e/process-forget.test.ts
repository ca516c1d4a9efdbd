import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { ExecServerClient } from '../../src/client/index.ts';
import { startServer, type TestServer } from '../../src/testing/index.ts';

let server: TestServer;
let client: ExecServerClient;
beforeAll(async () => {
  server = await startServer({});
  client = await ExecServerClient.connect({ url: server.url });
});
afterAll(async () => {
  await client.close();
  await server.close();
});

test.each([false, true])('removes a process that has ended, detached: %j', async (detached) => {
  const process = await client.spawn('echo output; exit 3', { detached, name: 'job' });
  await process.wait();
  await client.processes.forget('job');
  expect(await client.processes.list()).toEqual([]);
  await expect(client.attach('job')).rejects.toThrow(/job exited with code 3 .*its output was removed at/);
  await expect(client.call('process/read', { processId: process.ref! })).rejects.toThrow(
    'exited with code 3',
  );
  await expect(client.call('process/forget', { processId: process.ref! })).rejects.toThrow(
    'exited with code 3',
  );
  // Its name and its slot are free.
  const again = await client.spawn('true', { detached, name: 'job' });
  await again.wait();
  await client.processes.forget(again.ref!);
});

test('refuses a process that runs, and one whose output is open', async () => {
  const running = await client.spawn('sleep 60', { detached: true });
  await expect(client.processes.forget(running.ref!)).rejects.toThrow(/is running; terminate it first/);
  const left = await client.spawn('sleep 60 & exit 0', { detached: true });
  await left.wait({ until: 'exited' });
  await expect(client.processes.forget(left.ref!)).rejects.toThrow(/still have its output open/);
  for (const process of [running, left]) {
    await process.terminate();
    await process.wait();
    await client.processes.forget(process.ref!);
  }
  await expect(client.processes.forget('nothing')).rejects.toMatchObject({ kind: 'notFound' });
});

test('another client that follows the process gets all of it, and then its end', async () => {
  const other = await ExecServerClient.connect({ url: server.url });
  onTestFinished(() => other.close());
  const process = await client.spawn('echo output', { detached: true });
  const followed = await other.attach(process.ref!);
  await Promise.all([process.wait(), followed.wait()]);
  await client.processes.forget(process.ref!);
  let text = '';
  for await (const part of followed) text += part;
  expect(text).toBe('output\n');
});
