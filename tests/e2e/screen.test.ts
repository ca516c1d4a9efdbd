import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { startServer, type TestClient, type TestServer } from '../../src/testing/index.ts';
import { base64, shell, terminal } from '../support/programs.ts';
import { clientTerminal, feed, visibleState } from '../support/terminals.ts';

let server: TestServer;
let folder: string;
const SIZE = { rows: 30, cols: 100 };
const LINES = Array.from({ length: 500 }, (_, line) => `line ${line} of the file`);

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'screen-'));
  writeFileSync(join(folder, 'file.txt'), `${LINES.join('\n')}\n`);
  server = await startServer({ retainedOutputBytesPerProcess: 4096, snapshotHeadBytes: 1024 });
});
afterAll(async () => {
  await server.close();
  rmSync(folder, { recursive: true });
});

const missing = (program: string) => !existsSync(`/usr/bin/${program}`);

async function connect(): Promise<TestClient> {
  const client = await server.connect({ handshake: false });
  await client.handshake({ clientName: 'screens', capabilities: { processSharing: true } });
  onTestFinished(() => client.close());
  return client;
}

function start(client: TestClient, script: string) {
  const params = terminal('p', `cd ${folder}; export TERM=xterm-256color; ${script}`);
  return client.call('process/start', { ...params, size: SIZE });
}

const press = (client: TestClient, keys: string) =>
  client.call('process/write', { processId: 'p', chunk: base64(keys) });

/** All output up to an event. */
function outputUpTo(client: TestClient, processId: string, seq: number): Buffer {
  const chunks = client.received.flatMap(({ method, params }) => {
    const event = params as { processId: string; seq: number; chunk: string };
    const isMeant = method === 'process/output' && event.processId === processId && event.seq <= seq;
    return isMeant ? [Buffer.from(event.chunk, 'base64')] : [];
  });
  return Buffer.concat(chunks);
}

/** Waits until the screen contains a text, and compares it with a terminal that received everything. */
async function screenWith(client: TestClient, text: string) {
  for (;;) {
    const screen = await client.call('process/screen', { processId: 'p' });
    if (!screen.text.includes(text)) {
      await client.call('process/read', { processId: 'p', afterSeq: screen.seq, waitMs: 200 });
      continue;
    }
    const [everything, redrawn] = [clientTerminal(SIZE), clientTerminal(SIZE)];
    await feed(everything, outputUpTo(client, 'p', screen.seq));
    await feed(redrawn, Buffer.from(screen.redraw, 'base64'));
    expect(visibleState(redrawn)).toEqual(visibleState(everything));
    return screen;
  }
}

describe.skipIf(missing('vim'))('the screen of vim', () => {
  const vim = 'exec vim -u NONE -i NONE -n';

  test('is right behind more output than is retained', async () => {
    const client = await connect();
    await start(client, `seq 1 100000; ${vim} file.txt`);
    const screen = await screenWith(client, 'line 20 of the file');
    expect(screen).toMatchObject({ alternate: true, exact: true, ...SIZE });
    await press(client, ':q\r');
    await client.closedProcess('p');
    const last = await screenWith(client, '100000');
    expect(last).toMatchObject({ alternate: false, exact: true });
  });

  test('is right when it was opened before everything that is retained', async () => {
    const client = await connect();
    await start(client, `${vim} --cmd 'set title bg=dark' file.txt`);
    await screenWith(client, 'line 20 of the file');
    for (let round = 0; round < 40; round++) await press(client, '\f');
    for (let round = 0; round < 60; round++) await press(client, round % 2 === 0 ? 'G' : 'gg');
    await press(client, 'Gohello there');
    const screen = await screenWith(client, 'hello there');
    expect(screen).toMatchObject({ alternate: true, exact: true });
    expect(outputUpTo(client, 'p', screen.seq).length).toBeGreaterThan(40_000);
  });
});

test.skipIf(missing('less'))('the screen of less is right after it has scrolled through a file', async () => {
  const client = await connect();
  await start(client, 'less file.txt');
  await screenWith(client, 'line 20 of the file');
  for (let round = 0; round < 20; round++) await press(client, 'jjjjjjjjjjjjjjjjjjjj');
  const screen = await screenWith(client, 'line 425 of the file');
  expect(screen).toMatchObject({ exact: true });
});

test('a client that attaches with the screen continues it with the output that follows', async () => {
  const [owner, viewer] = [await connect(), await connect()];
  const script =
    'seq 1 5000; i=0; while read line; do i=$((i+1)); printf "\\033[5;5Hcount $i \\033[1;31m"; done';
  const { ref } = await start(owner, script);
  await screenWith(owner, '5000');
  let typing = true;
  const typed = (async () => {
    for (let line = 0; line < 200; line++) await press(owner, '\r');
    typing = false;
  })();
  const attached = await viewer.call('process/attach', { ref: ref!, screen: true });
  expect(typing).toBe(true);
  expect(attached.nextSeq).toBe(attached.screen!.seq + 1);
  await typed;
  const { seq } = await screenWith(owner, 'count 200');
  await viewer.waitFor(
    ({ method, params }) => method === 'process/output' && (params as { seq: number }).seq === seq,
  );
  const [everything, continued] = [clientTerminal(SIZE), clientTerminal(SIZE)];
  await feed(everything, outputUpTo(owner, 'p', seq));
  await feed(continued, Buffer.from(attached.screen!.redraw, 'base64'));
  await feed(continued, outputUpTo(viewer, ref!, seq));
  expect(visibleState(continued)).toEqual(visibleState(everything));
});

test('a resize takes effect where it came in the output', async () => {
  const client = await connect();
  await start(client, 'echo before; read line; stty size; sleep 60');
  await screenWith(client, 'before');
  await client.call('process/resize', { processId: 'p', rows: 10, cols: 40 });
  await press(client, '\r');
  const wait = async (): Promise<{ rows: number; cols: number }> => {
    const screen = await client.call('process/screen', { processId: 'p' });
    return screen.text.includes('10 40') ? screen : wait();
  };
  expect(await wait()).toMatchObject({ rows: 10, cols: 40 });
});

test('a process on pipes has no screen', async () => {
  const client = await connect();
  await client.call('process/start', shell('p', 'true'));
  await expect(client.call('process/screen', { processId: 'p' })).rejects.toThrow(
    'the process does not run on a terminal and has no screen',
  );
});

test('a terminal that is too large has no screen', async () => {
  const client = await connect();
  await client.call('process/start', { ...terminal('p', 'sleep 60'), size: { rows: 60_000, cols: 60_000 } });
  await expect(client.call('process/screen', { processId: 'p' })).rejects.toThrow(
    'a screen has at most 250000 characters',
  );
});
