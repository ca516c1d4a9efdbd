import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { createRequire } from 'node:module';
import { expect, onTestFinished, test } from 'vitest';
import { startServer } from '../../src/testing/index.ts';
import { terminal } from '../support/programs.ts';

/** Modules of the terminal library that this process has loaded. */
const loaded = () =>
  Object.keys(createRequire(import.meta.url).cache).filter((path) => path.includes('@xterm'));

test('screens cost nothing until a client asks for one: no thread runs, and the library is not loaded', async () => {
  const server = await startServer({ retainedOutputBytesPerProcess: 64 * 1024 });
  onTestFinished(() => server.close());
  let threads = 0;
  const started = () => {
    threads++;
  };
  subscribe('worker_threads', started);
  onTestFinished(() => void unsubscribe('worker_threads', started));
  const [owner, viewer] = [
    await server.connect({ handshake: false }),
    await server.connect({ handshake: false }),
  ];
  for (const client of [owner, viewer]) {
    await client.handshake({ clientName: 'screens', capabilities: { processSharing: true } });
    onTestFinished(() => client.close());
  }
  // More output than is retained, then a program that uses the whole screen.
  const script = 'seq 1 100000; printf "\\033[?1049h\\033[2Jdrawn"; read go';
  const { ref } = await owner.call('process/start', terminal('p', script));
  await viewer.call('process/attach', { ref: ref!, afterSeq: 0 });
  await viewer.waitFor(
    ({ method, params }) =>
      method === 'process/output' &&
      String(Buffer.from((params as { chunk: string }).chunk, 'base64')).includes('drawn'),
  );
  await owner.call('process/resize', { processId: 'p', rows: 30, cols: 100 });
  await owner.call('process/read', { processId: 'p' });
  await owner.call('process/list', {});
  expect([threads, loaded()]).toEqual([0, []]);
  expect((await viewer.call('process/screen', { processId: ref! })).text).toContain('drawn');
  // Only the thread loads the library.
  expect([threads, loaded()]).toEqual([1, []]);
});
