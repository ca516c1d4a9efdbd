import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readdir, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type Incoming, startServer, type TestClient, type TestServer } from '../../src/testing/index.ts';
import { waitFor } from '../support/wait-for.ts';

const STORM = fileURLToPath(new URL('../fixtures/file-storm.mjs', import.meta.url));

let folder: string;
let server: TestServer;
let client: TestClient;

beforeEach(async () => {
  folder = await realpath(await mkdtemp(join(tmpdir(), 'file-watch-')));
  server = await startServer();
  client = await server.connect();
});

afterEach(async () => {
  await server.close();
  await rm(folder, { recursive: true, force: true });
});

const uri = (...names: string[]) => pathToFileURL(join(folder, ...names)).href;
const reported = (method: string) => (message: Incoming) => message.method === method;

interface Changed {
  readonly watchId: string;
  readonly changes: readonly { readonly path: string; readonly kind: string }[];
}

test('a client that applies a storm of changes ends with the existing tree', {
  timeout: 60_000,
}, async () => {
  await mkdir(join(folder, 'root'));
  await client.call('fs/watch', { watchId: 'storm', path: uri('root') });
  await promisify(execFile)(process.execPath, [STORM, join(folder, 'root'), '10000']);
  const there = (await readdir(join(folder, 'root'), { recursive: true }))
    .map((name) => uri('root', name))
    .sort();
  expect(there.length).toBeGreaterThan(1000);
  await waitFor('the copy to be true', () => {
    const known = new Set<string>();
    for (const message of client.received.filter(reported('fs/changed'))) {
      for (const { path, kind } of (message.params as Changed).changes) {
        if (kind === 'created') known.add(path);
        if (kind === 'deleted') known.delete(path);
      }
    }
    return known.size === there.length && there.every((path) => known.has(path));
  });
});

test('a watch reports changes until it is removed', async () => {
  await client.call('fs/watch', { watchId: 'ended', path: uri() });
  await client.call('fs/watch', { watchId: 'stays', path: uri(), debounceMs: 0 });
  await writeFile(join(folder, 'first'), '');
  await waitFor('both to report', () => client.received.filter(reported('fs/changed')).length >= 2);
  await client.call('fs/unwatch', { watchId: 'ended' });
  await writeFile(join(folder, 'second'), '');
  const second = { path: uri('second'), kind: 'created' };
  const changesOf = (watchId: string) =>
    client.received
      .filter(reported('fs/changed'))
      .map((message) => message.params as Changed)
      .flatMap((params) => (params.watchId === watchId ? params.changes : []));
  await waitFor('the second change', () => changesOf('stays').some(({ path }) => path === second.path));
  expect(changesOf('stays')).toContainEqual(second);
  expect(changesOf('ended')).not.toContainEqual(second);
});

test.each([
  ['a path that does not exist', { watchId: 'x', path: 'file:///no/such/path' }, -32004],
  ['an id in use', { watchId: 'taken', path: 'file:///tmp', recursive: false }, -32600],
])('rejects %s', async (_, params, code) => {
  await client.call('fs/watch', { watchId: 'taken', path: uri() });
  await expect(client.call('fs/watch', params)).rejects.toMatchObject({ code });
});

test('reports the appearance of a missing path once', async () => {
  const params = { watchId: 1, missing: [uri('later', 'deep')], present: uri() };
  expect(await client.call('fs/watchMissing', params)).toEqual({ watching: true });
  await mkdir(join(folder, 'later', 'deep'), { recursive: true });
  const message = await client.waitFor(reported('fs/missingChanged'));
  expect(message.params).toEqual({ watchId: 1 });
  expect(await client.call('fs/watchMissing', { ...params, watchId: 2 })).toEqual({ watching: false });
  expect(client.received.filter(reported('fs/missingChanged'))).toHaveLength(1);
});
