import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdtemp, open, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { finished } from 'node:stream/promises';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { ResultOf } from '../../src/protocol/registry.ts';
import { type ServerProcess, startServerProcess, type TestClient } from '../../src/testing/index.ts';
import { descriptorsOf, memoryOf } from '../support/machine.ts';
import { waitFor } from '../support/wait-for.ts';

const MiB = 1024 * 1024;

let folder: string;
let server: ServerProcess;
let client: TestClient;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'file-transfer-'));
  server = await startServerProcess();
  client = await server.connect();
});

afterEach(async () => {
  await server.close();
  await rm(folder, { recursive: true, force: true });
});

const path = (name: string) => join(folder, name);
const uri = (name: string) => pathToFileURL(path(name)).href;

/** A file of random megabytes that repeat; returns its hash. */
async function makeFile(name: string, megabytes: number): Promise<string> {
  const stream = createWriteStream(path(name));
  const block = randomBytes(MiB);
  for (let index = 0; index < megabytes; index++) {
    block.writeUInt32LE(index);
    if (!stream.write(Buffer.from(block))) await once(stream, 'drain');
  }
  stream.end();
  await finished(stream);
  return await hashOf(path(name));
}

async function hashOf(file: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(file)) hash.update(chunk as Buffer);
  return hash.digest('hex');
}

function serverPeak(): number {
  return memoryOf(server.process.pid!, 'VmHWM');
}

test('transfers 256 MB in blocks in both directions with constant memory', async () => {
  const source = await makeFile('source', 256);
  await client.call('fs/open', { handleId: 'r', path: uri('source') });
  await client.call('fs/open', { handleId: 'w', path: uri('copy'), mode: 'replace' });
  let offset = 0;
  for (;;) {
    const answer = await client.request('fs/readBlock', { handleId: 'r', offset, len: MiB });
    const { chunk, eof } = answer as ResultOf<'fs/readBlock'>;
    if (eof) break;
    await client.request('fs/writeBlock', { handleId: 'w', offset, chunk });
    offset += MiB;
    client.received.length = 0;
  }
  await client.call('fs/close', { handleId: 'w' });
  expect(offset).toBe(256 * MiB);
  expect(await hashOf(path('copy'))).toBe(source);
  expect(serverPeak()).toBeLessThan(160 * MiB);
}, 120_000);

test('sends a large file in one message without holding it in memory', async () => {
  const hash = await makeFile('large', 150);
  const { dataBase64 } = await client.call('fs/readFile', { path: uri('large') });
  const bytes = Buffer.from(dataBase64, 'base64');
  expect(createHash('sha256').update(bytes).digest('hex')).toBe(hash);
  expect(serverPeak()).toBeLessThan(130 * MiB);
});

test('transfers sizes around the internal limits exactly', async () => {
  const block = 192 * 1024;
  const inline = 1536 * 1024;
  const sizes = [
    0,
    1,
    2,
    3,
    block - 1,
    inline - 2,
    inline - 1,
    inline,
    inline + 1,
    inline + block,
    inline + block + 1,
  ];
  for (const size of sizes) {
    const bytes = randomBytes(size);
    await writeFile(path('sized'), bytes);
    const { dataBase64 } = await client.call('fs/readFile', { path: uri('sized') });
    expect(Buffer.from(dataBase64, 'base64').equals(bytes), `${size} bytes`).toBe(true);
  }
});

test('other responses and output wait behind a large response, and all arrive', async () => {
  await makeFile('large', 40);
  const argv = ['/bin/sh', '-c', 'head -c 3000000 /dev/zero; echo done'];
  const reading = client.call('fs/readFile', { path: uri('large') });
  const second = client.call('fs/readFile', { path: uri('large') });
  await client.call('process/start', {
    processId: 'p',
    argv,
    cwd: uri(''),
    env: { PATH: '/usr/bin:/bin' },
    tty: false,
  });
  const statuses = Array.from({ length: 200 }, () => client.call('environment/status', {}));
  expect((await reading).dataBase64).toBe((await second).dataBase64);
  await Promise.all(statuses);
  expect((await client.closedProcess('p')).bytes('stdout')).toHaveLength(3_000_005);
});

test('leaves no file open when a client disconnects during a large response', async () => {
  await makeFile('large', 60);
  client.setReading(false);
  void client.call('fs/readFile', { path: uri('large') }).catch(() => {});
  await waitFor('the file to be open', () => openFiles().includes(path('large')));
  await client.drop();
  await waitFor('the file to be closed', () => !openFiles().includes(path('large')));
});

test('a file that shrinks while it is read ends at its new size', async () => {
  await makeFile('shrinking', 60);
  client.setReading(false);
  const reading = client.call('fs/readFile', { path: uri('shrinking') });
  await waitFor('the file to be open', () => openFiles().includes(path('shrinking')));
  await truncate(path('shrinking'), 30 * MiB);
  client.setReading(true);
  const { dataBase64 } = await reading;
  const bytes = Buffer.from(dataBase64, 'base64');
  expect(bytes.length).toBeLessThanOrEqual(30 * MiB);
  expect(bytes.length).toBeGreaterThan(MiB);
});

test('writes a message of 40 MB', async () => {
  const bytes = randomBytes(40 * MiB);
  await client.call('fs/writeFile', { path: uri('sent'), dataBase64: bytes.toString('base64') });
  const file = await open(path('sent'));
  expect((await file.readFile()).equals(bytes)).toBe(true);
  await file.close();
});

function openFiles(): string[] {
  return descriptorsOf(server.process.pid!);
}
