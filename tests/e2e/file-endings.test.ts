import { mkdir, mkdtemp, open, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { UNSENT_RESPONSES_MAX_BYTES } from '../../src/rpc/limits.ts';
import { DEFAULT_CONFIG } from '../../src/server/config/config.ts';
import { ExecServer } from '../../src/server/exec-server.ts';
import { FILE_OPERATIONS_PER_CONNECTION } from '../../src/server/limits.ts';
import { connectInMemory } from '../../src/testing/index.ts';
import type { MemoryTransport } from '../../src/transport/memory.ts';
import { StdioTransport } from '../../src/transport/stdio.ts';
import { bufferedText } from '../support/buffered-text.ts';
import { waitFor } from '../support/wait-for.ts';

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'file-endings-'));
});

afterEach(async () => {
  await rm(folder, { recursive: true, force: true });
});

const uri = (name = '') => pathToFileURL(join(folder, name)).href;

const WALK_OPTIONS = { maxDepth: 9, maxDirectories: 100, maxEntries: 1000, followDirectorySymlinks: false };

async function makeTree(): Promise<void> {
  for (let index = 0; index < 30; index++) {
    await mkdir(join(folder, `d${index}`));
    await writeFile(join(folder, `d${index}`, 'f'), 'needle\n');
  }
}

test('answers all requests of a client that then closes its input', async () => {
  await makeTree();
  const input = new PassThrough();
  const output = new PassThrough();
  const server = new ExecServer({ ...DEFAULT_CONFIG, shutdownGracePeriodMs: 0 });
  const accepted = server.accept(new StdioTransport(input, output, { maxMessageBytes: 1_000_000 }));
  const requests = [
    { id: 1, method: 'initialize', params: { clientName: 'x' } },
    { method: 'initialized' },
    { id: 2, method: 'fs/walk', params: { path: uri(), options: WALK_OPTIONS } },
    { id: 3, method: 'fs/search', params: { path: uri(), pattern: 'needle' } },
  ];
  input.end(requests.map((request) => `${JSON.stringify(request)}\n`).join(''));
  await accepted;
  await server.close();
  const lines = bufferedText(output).trim().split('\n');
  const answers = new Map(lines.map((line) => JSON.parse(line)).map((answer) => [answer.id, answer]));
  expect(answers.get(2).result?.entries).toHaveLength(60);
  expect(answers.get(3).result?.matches).toHaveLength(30);
});

async function makeSparse(name: string, size: number): Promise<void> {
  const file = await open(join(folder, name), 'w');
  await file.truncate(size);
  await file.close();
}

/** Counts the bytes that the server has written to its end of the connection. */
function countSent(serverEnd: MemoryTransport): () => number {
  let sent = 0;
  const send = serverEnd.send.bind(serverEnd);
  serverEnd.send = (message) => {
    sent += message.length;
    return send(message);
  };
  return () => sent;
}

/** Resolves when the number has not changed for a while. */
async function steady(count: () => number): Promise<number> {
  for (let before = -1; before < count(); ) {
    before = count();
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  return count();
}

test('buffers only a few large files for a client that does not read responses', async () => {
  const size = 1_000_000;
  await makeSparse('large', size);
  const { client, serverEnd, close } = connectInMemory();
  await client.handshake();
  const sent = countSent(serverEnd);
  serverEnd.setCongested(true);
  const calls = Array.from({ length: 200 }, () => client.call('fs/readFile', { path: uri('large') }));
  await waitFor('answers to pile up', () => sent() > UNSENT_RESPONSES_MAX_BYTES);
  expect(await steady(sent)).toBeLessThan(
    UNSENT_RESPONSES_MAX_BYTES + (FILE_OPERATIONS_PER_CONNECTION + 2) * size * 1.4,
  );
  serverEnd.setCongested(false);
  for (const { dataBase64 } of await Promise.all(calls)) expect(dataBase64).toHaveLength(1_333_336);
  await close();
});

test('continues a streamed response while others queue behind it', async () => {
  await makeSparse('streamed', 6_000_000);
  await makeSparse('large', 1_000_000);
  const { client, serverEnd, close } = connectInMemory();
  await client.handshake();
  serverEnd.setCongested(true);
  const calls = ['streamed', ...Array.from({ length: 40 }, () => 'large'), 'streamed'].map((name) =>
    client.call('fs/readFile', { path: uri(name) }),
  );
  await steady(() => process.memoryUsage().arrayBuffers);
  serverEnd.setCongested(false);
  const lengths = (await Promise.all(calls)).map(({ dataBase64 }) => dataBase64.length);
  expect(lengths).toEqual([8_000_000, ...Array.from({ length: 40 }, () => 1_333_336), 8_000_000]);
  await close();
});

test('closing a handle does not overtake earlier requests on the same path', async () => {
  const { client, close } = connectInMemory({ concurrentRequests: 1 });
  await client.handshake();
  await writeFile(join(folder, 'a'), 'old');
  const results = await Promise.all([
    client.call('fs/readDirectory', { path: uri() }),
    client.call('fs/remove', { path: uri('a') }),
    client.call('fs/open', { handleId: 'h', path: uri('a'), mode: 'replace' }),
    client.call('fs/close', { handleId: 'h' }),
    client.call('fs/getMetadata', { path: uri('a') }),
  ]);
  expect(results.at(-1)).toMatchObject({ isFile: true });
  await close();
});
