import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { ExecServerClient } from '../../src/client/index.ts';
import { FILE_BLOCK_BYTES } from '../../src/client/limits.ts';
import { startServer, type TestServer } from '../../src/testing/index.ts';
import type { Transport } from '../../src/transport/transport.ts';
import { connectWebSocket } from '../../src/transport/websocket.ts';
import { overStdio } from '../support/connected-clients.ts';
import { echoPeer } from '../support/tcp-peers.ts';
import { waitFor } from '../support/wait-for.ts';
import { webServer } from '../support/web-servers.ts';

const CONTENT = randomBytes(2 * FILE_BLOCK_BYTES + 12_345);

let folder: string;
let server: TestServer;
let client: ExecServerClient;
/** Methods of the binary messages of a test, `result` for results. */
const received = new Set<string>();
const sent = new Set<string>();

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'binary-messages-'));
  writeFileSync(join(folder, 'source'), CONTENT);
  server = await startServer({ recordDir: join(folder, 'recordings') });
  const open = async (signal: AbortSignal) => recorded(await connectWebSocket(server.url, { signal }));
  client = await ExecServerClient.connect({ open, resumable: true });
});
beforeEach(() => {
  received.clear();
  sent.clear();
});
afterAll(async () => {
  await client.close();
  await server.close();
  rmSync(folder, { recursive: true });
});

/** Records the binary messages of a client. */
function recorded(transport: Transport): Transport {
  const methodOf = (text: string) => (JSON.parse(text).method as string | undefined) ?? 'result';
  const [open, sendBytes] = [transport.open.bind(transport), transport.sendBytes!.bind(transport)];
  transport.open = (events) =>
    open({
      ...events,
      bytesMessage: (message) => {
        received.add(methodOf(message.text));
        events.bytesMessage?.(message);
      },
    });
  transport.sendBytes = (message, released) => {
    sent.add(methodOf(message.text));
    return sendBytes(message, released);
  };
  return transport;
}

test('the input and the output of a program are bytes', async () => {
  const process = await client.spawn(['cat'], { pipeStdin: true });
  const output: Uint8Array[] = [];
  const reading = (async () => {
    for await (const event of process.events()) if (event.type === 'output') output.push(event.bytes);
  })();
  await process.write(CONTENT);
  await process.closeStdin();
  await reading;
  expect(Buffer.concat(output).equals(CONTENT)).toBe(true);
  expect([...sent, ...received]).toEqual(['process/write', 'process/output']);
});

test('a short output is text', async () => {
  expect(await client.run(['echo', 'short'])).toMatchObject({ exitCode: 0 });
  expect(received.size).toBe(0);
});

test('the content of files is bytes, whole and in blocks', async () => {
  const at = (name: string) => join(folder, name);
  await client.files.write(at('whole'), CONTENT);
  expect(readFileSync(at('whole')).equals(CONTENT)).toBe(true);
  expect(Buffer.from(await client.files.read(at('source'))).equals(CONTENT)).toBe(true);
  await client.files.upload(at('source'), at('up'));
  expect(readFileSync(at('up')).equals(CONTENT)).toBe(true);
  await client.files.download(at('source'), at('down'));
  expect(readFileSync(at('down')).equals(CONTENT)).toBe(true);
  expect(sent).toEqual(new Set(['fs/writeFile', 'fs/writeBlock']));
  expect(received).toEqual(new Set(['result']));
});

test('the content of recordings is bytes', async () => {
  await client.run(['seq', '20000']);
  const recording = await waitFor('the end of the recording', async () =>
    (await client.recordings.list()).find(
      ({ command, state }) => command.startsWith('seq') && state === 'complete',
    ),
  );
  const pieces: Uint8Array[] = [];
  for await (const piece of client.recordings.read(recording!.recordingId)) pieces.push(piece);
  expect(Buffer.concat(pieces).equals(readFileSync(recording!.path))).toBe(true);
  expect(pieces[0]!.length).toBeGreaterThan(100_000);
  expect(received).toContain('result');
});

test('the bodies of HTTP requests are bytes', async () => {
  const web = await webServer((request, response) => request.pipe(response));
  const request = { method: 'POST', url: web.url, body: CONTENT };
  const { body } = await client.http.request(request);
  expect(Buffer.from(body).equals(CONTENT)).toBe(true);
  expect([...sent, ...received]).toEqual(['http/request', 'result']);
  const streamed = await client.http.stream(request);
  const pieces: Uint8Array[] = [];
  for await (const piece of streamed.body) pieces.push(piece);
  expect(Buffer.concat(pieces).equals(CONTENT)).toBe(true);
  expect(received).toContain('http/request/bodyDelta');
  await web.close();
});

test('the data of TCP streams is bytes', async () => {
  const peer = await echoPeer();
  const socket = await client.connectTcp({ port: peer.port });
  const echoed: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => echoed.push(chunk));
  socket.end(CONTENT);
  await new Promise((resolve) => socket.once('end', resolve));
  expect(Buffer.concat(echoed).equals(CONTENT)).toBe(true);
  expect([...sent, ...received]).toEqual(['tcp/data', 'tcp/data']);
});

test('a caller of the methods themselves gets base64, as their schemas say', async () => {
  const path = `file://${join(folder, 'source')}`;
  const { dataBase64 } = await client.call('fs/readFile', { path });
  expect(dataBase64).toBe(CONTENT.toString('base64'));
  const chunks: string[] = [];
  const ended = new Promise<void>((resolve) => {
    client.onNotification('command/exec/outputDelta', ({ chunk }) => chunks.push(chunk));
    client.onNotification('command/exec/exited', () => resolve());
  });
  const argv = ['/bin/cat', join(folder, 'source')];
  await client.call('command/exec', { processId: 'legacy', argv, cwd: folder, env: {}, tty: false });
  await ended;
  expect(Buffer.concat(chunks.map((chunk) => Buffer.from(chunk, 'base64'))).equals(CONTENT)).toBe(true);
  expect(received).toEqual(new Set(['result', 'command/exec/outputDelta']));
});

test('stdio has no binary frames: everything is base64 there', async () => {
  const { client: other, close } = await overStdio();
  try {
    expect(other.capabilities.binaryMessages).toBe(true);
    const bytes = await other.files.read(join(folder, 'source'));
    expect(Buffer.from(bytes).equals(CONTENT)).toBe(true);
  } finally {
    await close();
  }
});
