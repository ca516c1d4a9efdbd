import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { selectRoot, ThreadStore } from '../../src/environment/index.ts';

const WRITER = fileURLToPath(new URL('../fixtures/thread-writer.mjs', import.meta.url));
const roots = [selectRoot({ id: 'plugin@1', environmentId: 'worker', path: '/plugins/one' })];

let folder: string;
let store: ThreadStore;
const writers: ChildProcess[] = [];
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'thread-store-'));
  store = await ThreadStore.open(folder);
});
afterEach(async () => {
  for (const writer of writers.splice(0)) {
    if (writer.exitCode !== null || writer.signalCode !== null) continue;
    writer.kill('SIGKILL');
    await once(writer, 'exit');
  }
  rmSync(folder, { recursive: true, force: true });
});

/** Starts a program that appends turns to the thread `t`, and yields what it prints. */
function write(before = ''): { writer: ChildProcess; lines: AsyncIterator<string> } {
  const script = `${before} exec "$0" "$@"`;
  const writer = spawn('bash', ['-c', script, process.execPath, WRITER, folder, 't'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  writers.push(writer);
  return { writer, lines: createInterface({ input: writer.stdout! })[Symbol.asyncIterator]() };
}

async function nextLine(lines: AsyncIterator<string>): Promise<string> {
  const { value } = await lines.next();
  return value as string;
}

test('a killed writer loses no turn that it has stored', async () => {
  await store.create('t', { roots });
  const { writer, lines } = write();
  let stored = 0;
  while (stored < 20) stored = Number((await nextLine(lines)).replace('stored ', ''));
  writer.kill('SIGKILL');
  await once(writer, 'exit');
  const resumed = await store.resume('t');
  expect(resumed.roots).toEqual(roots);
  expect(resumed.turns.length).toBeGreaterThanOrEqual(stored);
  expect(resumed.turns.map(({ turn }) => turn)).toEqual(resumed.turns.map((_, index) => index + 1));
  await resumed.append({ turn: 'next' });
  expect((await store.resume('t')).turns.at(-1)).toEqual({ turn: 'next' });
});

test('a write that the disk refuses keeps everything before it, and the next one works', async () => {
  await store.create('t', { roots });
  // A file can have 8 KiB: the write that crosses the limit is cut off.
  const { writer, lines } = write('trap "" XFSZ; ulimit -f 8;');
  let line = await nextLine(lines);
  let stored = 0;
  for (; line.startsWith('stored'); line = await nextLine(lines)) stored++;
  expect(line).toMatch(/^storage: the turn cannot be added to thread 't': /);
  if (writer.exitCode === null) await once(writer, 'exit');
  const resumed = await store.resume('t');
  expect(resumed.roots).toEqual(roots);
  expect(resumed.turns).toHaveLength(stored);
  expect(resumed.damage).toHaveLength(1);
  await resumed.append({ turn: 'next' });
  expect((await store.resume('t')).turns).toHaveLength(stored + 1);
});

test('a second process that writes to the thread is noticed', async () => {
  const log = await store.create('t', { roots });
  const { lines } = write();
  await nextLine(lines);
  await expect(log.append({ turn: 'mine' })).rejects.toMatchObject({ kind: 'conflict' });
  expect((await store.resume('t')).turns).not.toContainEqual({ turn: 'mine' });
});
