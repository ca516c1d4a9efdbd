import { writeFileSync } from 'node:fs';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { FileWatch } from '../../../src/client/backend.ts';
import { LocalExecutorFileSystem } from '../../../src/environment/local-file-system.ts';
import { MAX_WATCHES } from '../../../src/files/limits.ts';
import { waitFor } from '../../support/wait-for.ts';
import { Scratch } from '../files/local/scratch.ts';

const scratch = new Scratch();
const uri = (name: string) => `file://${scratch.at(name)}`;
let files: LocalExecutorFileSystem;

beforeEach(() => {
  files = new LocalExecutorFileSystem();
});
afterEach(() => files.dispose());

test('a stream that is left, given up or read to its end leaves nothing open', async () => {
  writeFileSync(scratch.at('file'), Buffer.alloc(2 * 1024 * 1024));
  for await (const _block of files.readFileStream(uri('file'))) break;
  for await (const _block of files.readFileStream(uri('file')));
  const giveUp = new AbortController();
  const blocks = files.readFileStream(uri('file'), { signal: giveUp.signal });
  await blocks.next();
  giveUp.abort();
  await expect(blocks.next()).rejects.toMatchObject({ kind: 'aborted' });
  expect(scratch.heldOpen()).toEqual([]);
});

test('a file below a directory that is made with those above it waits for them', async () => {
  for (let round = 0; round < 20; round++) {
    const made = files.createDirectory(uri(`made${round}/b/c/d/e`));
    await files.writeFile(uri(`made${round}/f`), Buffer.from('x'));
    await made;
  }
});

test('a file that is open too late is closed', async () => {
  writeFileSync(scratch.at('file'), 'x');
  const giveUp = new AbortController();
  const first = files.readFileStream(uri('file'), { signal: giveUp.signal }).next();
  giveUp.abort();
  await expect(first).rejects.toMatchObject({ kind: 'aborted' });
  await waitFor('the file to be closed', () => scratch.heldOpen().length === 0);
});

test('watches are bounded, and those that end make room', async () => {
  const watches: FileWatch[] = [];
  for (let count = 0; count < MAX_WATCHES; count++) watches.push(await files.watch(uri('.')));
  await expect(files.watch(uri('.'))).rejects.toMatchObject({ kind: 'invalidInput', code: -32600 });
  await watches[0]!.close();
  await files.watch(uri('.'));
});

test('an open watch keeps the process alive', async () => {
  const timers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
  const before = timers();
  for (let count = 0; count < MAX_WATCHES; count++) await files.watch(uri('.'));
  expect(timers()).toBeGreaterThan(before + MAX_WATCHES / 2);
  await files.dispose();
  expect(timers()).toBeLessThan(before + MAX_WATCHES / 2);
});

test('disposing ends the loops over watches, and says why', async () => {
  const watch = await files.watch(uri('.'));
  const next = watch[Symbol.asyncIterator]().next();
  const closed = expect(next).rejects.toMatchObject({ kind: 'closed' });
  await files.dispose();
  await closed;
});

test('a watch that is set up while the files are disposed of does not begin', async () => {
  const first = files.watch(uri('.'));
  await files.dispose();
  await expect(first).rejects.toMatchObject({ kind: 'closed' });
});

test('a watch that is given up while it is set up is ended', async () => {
  const giveUp = new AbortController();
  const watching = files.watch(uri('.'), { signal: giveUp.signal });
  giveUp.abort();
  await expect(watching).rejects.toMatchObject({ kind: 'aborted' });
  for (let count = 0; count < MAX_WATCHES; count++) {
    await waitFor('room for a watch', () => files.watch(uri('.')).catch(() => null));
  }
});
