import { writeFileSync } from 'node:fs';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { FileWatch } from '../../../src/client/backend.ts';
import { LocalEnvironment } from '../../../src/environment/local-environment.ts';
import { MAX_FILE_HANDLES, MAX_WATCHES } from '../../../src/files/limits.ts';
import { waitFor } from '../../support/wait-for.ts';
import { Scratch } from '../files/local/scratch.ts';

const scratch = new Scratch();
const uri = (name: string) => `file://${scratch.at(name)}`;
let environment: LocalEnvironment;
let files: LocalEnvironment['fileSystem'];

beforeEach(() => {
  environment = new LocalEnvironment();
  files = environment.fileSystem;
});
afterEach(() => environment.dispose());

test('a stream closes its file when its reader stops, aborts or reaches the end', async () => {
  writeFileSync(scratch.at('file'), Buffer.alloc(2 * 1024 * 1024));
  for await (const _block of files.readFileStream(uri('file'))) break;
  for await (const _block of files.readFileStream(uri('file')));
  const giveUp = new AbortController();
  const blocks = files.readFileStream(uri('file'), { signal: giveUp.signal })[Symbol.asyncIterator]();
  await blocks.next();
  giveUp.abort();
  await expect(blocks.next()).rejects.toMatchObject({ kind: 'aborted' });
  await waitFor('the file to be closed', () => scratch.openFiles().length === 0);
});

test('a write waits for the creation of its parent directories', async () => {
  for (let round = 0; round < 20; round++) {
    const made = files.createDirectory(uri(`made${round}/b/c/d/e`));
    await files.writeFile(uri(`made${round}/f`), Buffer.from('x'));
    await made;
  }
});

test('a file that opens after the caller has aborted is closed', async () => {
  writeFileSync(scratch.at('file'), 'x');
  const giveUp = new AbortController();
  const first = files.readFileStream(uri('file'), { signal: giveUp.signal })[Symbol.asyncIterator]().next();
  giveUp.abort();
  await expect(first).rejects.toMatchObject({ kind: 'aborted' });
  await waitFor('the file to be closed', () => scratch.openFiles().length === 0);
});

test('any number of operations may be called at the same time', async () => {
  writeFileSync(scratch.at('file'), 'content');
  const calls = Array.from({ length: 1_500 }, () => files.readFileText(uri('file')));
  expect(new Set(await Promise.all(calls))).toEqual(new Set(['content']));
});

test('more files may be open than a connection over a network may have', async () => {
  writeFileSync(scratch.at('file'), Buffer.alloc(2 * 1024 * 1024));
  const streams = Array.from({ length: MAX_FILE_HANDLES + 20 }, () =>
    files.readFileStream(uri('file'))[Symbol.asyncIterator](),
  );
  const first = await Promise.all(streams.map((stream) => stream.next()));
  expect(first.every(({ done }) => done === false)).toBe(true);
  await Promise.all(streams.map((stream) => stream.return?.()));
});

test('limits the number of watches, and frees the slot of a watch that is closed', async () => {
  const watches: FileWatch[] = [];
  for (let count = 0; count < MAX_WATCHES; count++) watches.push(await files.watch(uri('.')));
  await expect(files.watch(uri('.'))).rejects.toMatchObject({ kind: 'overloaded', code: -32600 });
  await watches[0]!.close();
  await files.watch(uri('.'));
});

test('dispose ends the iteration over a watch with the reason', async () => {
  const watch = await files.watch(uri('.'));
  const next = watch[Symbol.asyncIterator]().next();
  const closed = expect(next).rejects.toMatchObject({ kind: 'closed' });
  await environment.dispose();
  await closed;
});

test('rejects a watch that is being set up when the files are disposed of', async () => {
  const first = files.watch(uri('.'));
  await environment.dispose();
  await expect(first).rejects.toMatchObject({ kind: 'closed' });
});

test('ends a watch whose caller aborts while it is set up', async () => {
  const giveUp = new AbortController();
  const watching = files.watch(uri('.'), { signal: giveUp.signal });
  giveUp.abort();
  await expect(watching).rejects.toMatchObject({ kind: 'aborted' });
  for (let count = 0; count < MAX_WATCHES; count++) {
    await waitFor('a free slot for a watch', () => files.watch(uri('.')).catch(() => null));
  }
});
