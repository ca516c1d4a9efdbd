import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { LARGE_WALK_ENTRIES, MANY_SMALL_FILES } from '../../src/files/limits.ts';
import { type ServerProcess, startServerProcess } from '../../src/testing/index.ts';
import { waitFor } from '../support/wait-for.ts';

let folder: string;
let server: ServerProcess;
let unmount: () => Promise<unknown>;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'file-threads-'));
  unmount = async () => {};
  server = await startServerProcess();
});

afterEach(async () => {
  await unmount();
  await server.close();
  rmSync(folder, { recursive: true, force: true });
});

const uri = (...names: string[]) => pathToFileURL(join(folder, ...names)).href;
const everything = () => ({
  path: uri('tree'),
  options: { maxDepth: 9, maxDirectories: 1_000, maxEntries: 5_000, followDirectorySymlinks: false },
});

async function mountDead(): Promise<void> {
  mkdirSync(join(folder, 'dead'));
  const script = fileURLToPath(new URL('../fixtures/dead-mount.py', import.meta.url));
  const mount = spawn('python3', [script, join(folder, 'dead')], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const gone = once(mount, 'exit');
  unmount = () => {
    mount.stdin.end();
    return gone;
  };
  const [said] = (await once(mount.stdout, 'data')) as [Buffer];
  expect(said.toString()).toMatch(/^mounted/);
}

test('walks return the same response before and after a thread takes over', async () => {
  for (let index = 0; index < LARGE_WALK_ENTRIES / 10; index++) {
    mkdirSync(join(folder, 'tree', `${index} %é`), { recursive: true });
    for (let file = 0; file < 10; file++) writeFileSync(join(folder, 'tree', `${index} %é`, `${file}"`), '');
  }
  const client = await server.connect();
  await client.call('fs/getMetadata', { path: uri('tree') });
  const threads = () => readdirSync(`/proc/${server.process.pid}/task`).length;
  const threadsBefore = threads();
  const first = await client.call('fs/walk', everything());
  expect(first.entries).toHaveLength((LARGE_WALK_ENTRIES / 10) * 11);
  await waitFor('the thread', () => threads() > threadsBefore);
  for (let attempt = 0; attempt < 30; attempt++) {
    expect(await client.call('fs/walk', everything())).toEqual(first);
  }
});

test('threads that hang do not affect small files', async () => {
  await mountDead();
  const client = await server.connect();
  const turn = async (index: number) => {
    const dataBase64 = Buffer.from(`content ${index}`).toString('base64');
    await client.call('fs/writeFile', { path: uri('file'), dataBase64 });
    expect(readFileSync(join(folder, 'file'), 'utf8')).toBe(`content ${index}`);
    expect(await client.call('fs/readFile', { path: uri('file') })).toEqual({ dataBase64 });
  };
  for (let index = 0; index < 2 * MANY_SMALL_FILES; index++) await turn(index);
  const stuck = await server.connect();
  const hanging = Promise.allSettled(
    Array.from({ length: 6 }, (_, index) => stuck.call('fs/readFile', { path: uri('dead', `${index}`) })),
  );
  for (let index = 0; index < MANY_SMALL_FILES; index++) await turn(index);
  await unmount();
  const outcomes = await hanging;
  expect(outcomes.every(({ status }) => status === 'rejected')).toBe(true);
  await turn(0);
});
