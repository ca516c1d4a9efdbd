import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import schema from '../../schema/methods.json' with { type: 'json' };
import { startServer, type TestClient, type TestServer } from '../../src/testing/index.ts';
import { base64, shell } from '../support/programs.ts';

let folder: string;
let strict: TestServer;
let relaxed: TestServer;
let strictClient: TestClient;
let relaxedClient: TestClient;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'native paths é '));
  mkdirSync(join(folder, 'plugin'));
  writeFileSync(join(folder, '100%25.txt'), 'content');
  [strict, relaxed] = await Promise.all([startServer(), startServer({ acceptNativePaths: true })]);
  [strictClient, relaxedClient] = await Promise.all([strict.connect(), relaxed.connect()]);
});
afterAll(async () => {
  await Promise.all([strict.close(), relaxed.close()]);
  rmSync(folder, { recursive: true });
});

const inFolder = (name: string) => join(folder, name);
const uri = (name: string) => pathToFileURL(inFolder(name)).href;
const WALK = { maxDepth: 1, maxDirectories: 9, maxEntries: 9, followDirectorySymlinks: false };

/** Per method: params with native paths, and what the result must show about the file that they name. */
const REQUESTS: Readonly<Record<string, () => { params: object; result: unknown }>> = {
  'fs/readFile': () => ({
    params: { path: inFolder('100%25.txt') },
    result: { dataBase64: base64('content') },
  }),
  'fs/writeFile': () => ({ params: { path: inFolder('written'), dataBase64: base64('new') }, result: {} }),
  'fs/createDirectory': () => ({ params: { path: inFolder('made/deep/') }, result: {} }),
  'fs/getMetadata': () => ({ params: { path: inFolder('plugin/../100%25.txt') }, result: { isFile: true } }),
  'fs/canonicalize': () => ({
    params: { path: inFolder('100%25.txt') },
    result: { path: uri('100%25.txt') },
  }),
  'fs/readDirectory': () => ({ params: { path: inFolder('plugin') }, result: { entries: [] } }),
  'fs/walk': () => ({
    params: { path: inFolder('plugin'), options: WALK },
    result: { errors: [], truncated: false },
  }),
  'fs/copy': () => ({
    params: {
      sourcePath: inFolder('100%25.txt'),
      destinationPath: inFolder('copied'),
      recursive: false,
    },
    result: {},
  }),
  'fs/rename': () => ({
    params: { sourcePath: inFolder('copied'), destinationPath: inFolder('renamed') },
    result: {},
  }),
  'fs/list': () => ({
    params: { paths: [inFolder('renamed')] },
    result: { listings: [{ path: uri('renamed'), attributes: { kind: 'file' } }], unlisted: [] },
  }),
  'fs/setAttributes': () => ({ params: { path: inFolder('renamed'), mode: 0o600 }, result: {} }),
  'fs/createLink': () => ({
    params: { path: inFolder('renamed'), target: '/absolute', replace: true },
    result: {},
  }),
  'fs/remove': () => ({ params: { path: inFolder('renamed'), force: false }, result: {} }),
  'fs/hash': () => ({
    params: { paths: [inFolder('100%25.txt')] },
    result: { files: [{ sha256: expect.stringMatching(/^[0-9a-f]{64}$/) }] },
  }),
  'fs/search': () => ({
    params: { path: folder, pattern: 'content' },
    result: { matches: [{ path: uri('100%25.txt') }] },
  }),
  'fs/open': () => ({ params: { handleId: 'h', path: inFolder('100%25.txt') }, result: { handleId: 'h' } }),
  'fs/watch': () => ({ params: { watchId: 'w', path: folder }, result: { watchId: 'w' } }),
  'fs/watchMissing': () => ({
    params: { watchId: 1, missing: [inFolder('missing')], present: folder },
    result: { watching: true },
  }),
  'capabilityRoots/discoverV1': () => ({
    params: { roots: [{ id: 'r', path: inFolder('plugin') }] },
    result: { roots: [{ id: 'r' }] },
  }),
  'capabilities/discoverV2': () => ({ params: { cwd: folder }, result: {} }),
  'environmentConfig/read': () => ({
    params: { cwd: folder, configPaths: [['a']], requirementsPaths: [] },
    result: {},
  }),
  'process/start': () => ({ params: { ...shell('pwd', 'pwd'), cwd: folder }, result: { processId: 'pwd' } }),
};

/** Fields of `fs/*` that hold paths. */
const PATH_FIELD = /"(?:path|paths|sourcePath|missing)":/;

test('the table has every file method that takes a path', () => {
  const withPath = schema.methods
    .filter(({ name, params }) => name.startsWith('fs/') && PATH_FIELD.test(JSON.stringify(params)))
    .map(({ name }) => name);
  expect(withPath).toContain('fs/readFile');
  expect(Object.keys(REQUESTS)).toEqual(expect.arrayContaining(withPath));
});

describe.each(Object.keys(REQUESTS))('%s', (method) => {
  test('refuses a native path by default, and accepts it with acceptNativePaths', async () => {
    const { params, result } = REQUESTS[method]!();
    await expect(strictClient.request(method, params)).rejects.toMatchObject({
      code: -32602,
      message: expect.stringContaining('expected a file: URI such as file:///tmp'),
    });
    expect(await relaxedClient.request(method, params)).toMatchObject(result as object);
  });
});

describe('with acceptNativePaths', () => {
  test('the requests have changed the files that they name', async () => {
    const { entries } = await relaxedClient.call('fs/readDirectory', { path: pathToFileURL(folder).href });
    expect(entries.map(({ fileName }) => fileName).sort()).toEqual([
      '100%25.txt',
      'made',
      'plugin',
      'written',
    ]);
    expect(readFileSync(inFolder('written'), 'utf8')).toBe('new');
    expect((await relaxedClient.closedProcess('pwd')).text()).toBe(`${folder}\n`);
  });

  test('URIs are accepted too', async () => {
    expect(await relaxedClient.call('fs/readFile', { path: uri('100%25.txt') })).toEqual({
      dataBase64: base64('content'),
    });
  });

  test.each(['written', './written', '', '/tmp/a\0b', 'C:\\written'])(
    'refuses %j, which is no absolute path',
    async (path) => {
      await expect(relaxedClient.request('fs/readFile', { path })).rejects.toMatchObject({ code: -32602 });
    },
  );

  test('a name that looks like a drive stays a path of this machine', async () => {
    await expect(relaxedClient.request('fs/readFile', { path: '/C:/x/../missing' })).rejects.toMatchObject({
      code: -32004,
    });
  });

  test('a sandbox policy with a native path is refused', async () => {
    const sandbox = { type: 'workspaceWrite', writableRoots: [folder] };
    const request = relaxedClient.request('fs/readFile', { path: inFolder('100%25.txt'), sandbox });
    await expect(request).rejects.toMatchObject({ code: -32602 });
  });
});
