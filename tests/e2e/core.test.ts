import { createHash, randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { ExecServerClient, outputTextOf } from '../../src/client/index.ts';
import {
  type ServerProcess,
  startServerProcess,
  TcpProxy,
  type TestClient,
} from '../../src/testing/index.ts';
import { at, managed, ROOT_READ } from '../support/escape-fixture.ts';
import { base64, plain, shell, terminal } from '../support/programs.ts';

/** What every version of Node must do, with the program that users run. `npm test` runs this file on each of them. */

const MiB = 1024 * 1024;

let folder: string;
let server: ServerProcess;
let client: TestClient;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'core-'));
  server = await startServerProcess();
  client = await server.connect();
});

afterEach(async () => {
  await server.close();
  await rm(folder, { recursive: true, force: true });
  expect(server.process.exitCode).toBe(0);
  // A new version of Node may print warnings: of deprecated or experimental functions, or of descriptors.
  expect(server.stderr()).toBe('');
});

const path = (name: string) => join(folder, name);
const uri = (name: string) => pathToFileURL(path(name)).href;
const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');

test.each([1_000, 70_001, 5 * MiB + 1])('carries %i bytes in every direction', async (length) => {
  const bytes = randomBytes(length);
  const expected = sha256(bytes);
  await client.call('fs/writeFile', { path: uri('file'), dataBase64: bytes.toString('base64') });
  expect(sha256(await readFile(path('file')))).toBe(expected);

  const { dataBase64 } = await client.call('fs/readFile', { path: uri('file') });
  expect(sha256(Buffer.from(dataBase64, 'base64'))).toBe(expected);

  await client.call('fs/open', { handleId: 'h', path: uri('file') });
  const blocks: Buffer[] = [];
  for (let offset = 0; offset < length; offset += MiB) {
    const { chunk } = await client.call('fs/readBlock', { handleId: 'h', offset, len: MiB });
    blocks.push(Buffer.from(chunk, 'base64'));
  }
  expect(sha256(Buffer.concat(blocks))).toBe(expected);
  await client.call('fs/close', { handleId: 'h' });

  await client.call('process/start', { ...plain, processId: 'cat', argv: ['cat', path('file')] });
  const printed = await client.closedProcess('cat');
  expect(sha256(printed.bytes('stdout'))).toBe(expected);
  expect(printed.exitCode).toBe(0);

  await client.call('process/start', { ...shell('sum', 'sha256sum'), pipeStdin: true });
  for (let at = 0, id = 0; at < length; at += MiB) {
    const chunk = bytes.toString('base64', at, at + MiB);
    await client.call('process/write', { processId: 'sum', chunk, writeId: String(++id) });
  }
  await client.call('process/closeStdin', { processId: 'sum' });
  expect((await client.closedProcess('sum')).text()).toBe(`${expected}  -\n`);
});

test('refuses base64 that is not exact', async () => {
  for (const dataBase64 of ['aGk', 'aGk==', 'aG-_', `${'aGVs'.repeat(20_000)}\n   `]) {
    const writing = client.call('fs/writeFile', { path: uri('file'), dataBase64 });
    await expect(writing).rejects.toThrow(/base64/);
  }
});

test('runs a terminal', async () => {
  const script = 'stty size; read line; echo "got $line"; exec cat';
  await client.call('process/start', { ...terminal('tty', script), size: { rows: 12, cols: 34 } });
  await client.call('process/write', { processId: 'tty', chunk: base64('hello\n'), writeId: '1' });
  await client.call('process/closeStdin', { processId: 'tty' });
  const events = await client.closedProcess('tty');
  expect(events.text()).toContain('12 34\r\n');
  expect(events.text()).toContain('got hello\r\n');
  expect(events.exitCode).toBe(0);
});

test('confines a program and a file operation to a sandbox', async () => {
  await mkdir(path('workspace'));
  await writeFile(path('secret'), 'secret');
  const sandbox = managed([ROOT_READ, at(path('workspace'), 'write')]);
  const script = 'echo in > in; echo out > ../out; cat ../secret; echo end';
  await client.call('process/start', { ...shell('sh', script), cwd: uri('workspace'), sandbox });
  const events = await client.closedProcess('sh');
  expect(events.text('stdout')).toBe('secretend\n');
  expect(await readFile(path('workspace/in'), 'utf8')).toBe('in\n');
  expect(existsSync(path('out'))).toBe(false);

  await client.call('fs/writeFile', { path: uri('workspace/file'), dataBase64: base64('x'), sandbox });
  expect(await readFile(path('workspace/file'), 'utf8')).toBe('x');
  const outside = client.call('fs/writeFile', { path: uri('out'), dataBase64: base64('x'), sandbox });
  await expect(outside).rejects.toThrow();
  expect(existsSync(path('out'))).toBe(false);
});

test('loses no output when the connection breaks', async () => {
  const proxy = await TcpProxy.open(server.url);
  const recovering = await ExecServerClient.connect({ url: proxy.url });
  const script = 'for i in $(seq 1 20000); do echo "line $i"; done';
  const program = await recovering.backend.start(shell('lines', script));
  let text = '';
  let drops = 0;
  for await (const piece of outputTextOf(program)) {
    text += piece.text;
    if (drops < 3 && text.length > (drops + 1) * 20_000) {
      drops++;
      proxy.drop();
    }
  }
  const expected = Array.from({ length: 20_000 }, (_, index) => `line ${index + 1}\n`).join('');
  expect(sha256(Buffer.from(text))).toBe(sha256(Buffer.from(expected)));
  expect(drops).toBe(3);
  await recovering.close();
  await proxy.close();
});
