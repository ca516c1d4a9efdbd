import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type NativePath, nativePathOfText } from '../../../../src/files/native-path.ts';
import { ConnectionWatches } from '../../../../src/files/watch/connection-watches.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { inotifyWatches } from './watched-copy.ts';

const OPTIONS = { recursive: true, exclude: [], debounceMs: 5 };

let base: string;
let root: NativePath;
let isReady: boolean;
let reported: string[];
let watches: ConnectionWatches;

beforeEach(async () => {
  base = await mkdtemp(join(tmpdir(), 'connection-watches-'));
  root = nativePathOfText(base);
  isReady = true;
  reported = [];
  watches = new ConnectionWatches({
    deliver: (watchId, { changes }) => {
      for (const { kind, path } of changes)
        reported.push(`${watchId}: ${kind} ${path.slice(base.length + 1)}`);
    },
    ready: () => isReady,
  });
});

afterEach(async () => {
  watches.dispose();
  await rm(base, { recursive: true, force: true });
});

const write = (name: string) => writeFile(join(base, name), '');
const heard = (change: string) => waitFor(change, () => reported.includes(change));

test('changes are delivered with the id of their watch', async () => {
  await mkdir(join(base, 'box'));
  await watches.watch('all', root, OPTIONS);
  await watches.watch('box', nativePathOfText(join(base, 'box')), OPTIONS);
  await write('box/file');
  await heard('all: created box/file');
  await heard('box: created box/file');
});

test('rejects an id in use, which is free after unwatch', async () => {
  await watches.watch('one', root, OPTIONS);
  await expect(watches.watch('one', root, OPTIONS)).rejects.toMatchObject({
    kind: 'refused',
    message: 'watch id "one" is in use',
  });
  watches.unwatch('one');
  watches.unwatch('one');
  await watches.watch('one', root, OPTIONS);
  await write('file');
  await heard('one: created file');
});

test('reports a missing path as not found and leaves its id free', async () => {
  const missing = nativePathOfText(join(base, 'missing'));
  await expect(watches.watch('one', missing, OPTIONS)).rejects.toMatchObject({ kind: 'notFound' });
  await watches.watch('one', root, OPTIONS);
});

test('limits a connection to 32 watches', async () => {
  for (let i = 0; i < 32; i++) await watches.watch(`${i}`, root, OPTIONS);
  await expect(watches.watch('more', root, OPTIONS)).rejects.toMatchObject({
    kind: 'refused',
    message: 'a connection may have at most 32 watches; end one with fs/unwatch first',
  });
  watches.unwatch('7');
  await watches.watch('more', root, OPTIONS);
});

test('delivers nothing after unwatch', async () => {
  await watches.watch('ended', root, { ...OPTIONS, debounceMs: 30 });
  await watches.watch('stays', root, { ...OPTIONS, debounceMs: 60 });
  await write('file');
  watches.unwatch('ended');
  await heard('stays: created file');
  await write('later');
  await heard('stays: created later');
  expect(reported.filter((change) => change.startsWith('ended'))).toEqual([]);
});

test('unwatch during setup ends the watch and frees the id immediately', async () => {
  const before = await inotifyWatches();
  const pending = watches.watch('one', root, OPTIONS);
  watches.unwatch('one');
  const again = watches.watch('one', root, OPTIONS);
  await expect(pending).rejects.toMatchObject({
    kind: 'refused',
    message: 'the watch was removed before it was active',
  });
  await again;
  await write('file');
  await heard('one: created file');
  watches.unwatch('one');
  await waitFor('the watches to go', async () => (await inotifyWatches()) === before);
});

test('dispose ends everything, including watches during setup', async () => {
  const before = await inotifyWatches();
  await watches.watch('stands', root, OPTIONS);
  const pending = watches.watch('pending', root, OPTIONS);
  watches.dispose();
  await expect(pending).rejects.toMatchObject({ kind: 'refused' });
  await expect(watches.watch('late', root, OPTIONS)).rejects.toMatchObject({ kind: 'refused' });
  await waitFor('the watches to go', async () => (await inotifyWatches()) === before);
  await write('file');
  expect(reported).toEqual([]);
});

test('collects changes while the client does not read, and delivers them after flush', async () => {
  const listening = new ConnectionWatches({
    deliver: () => {
      seen = true;
    },
    ready: () => true,
  });
  let seen = false;
  isReady = false;
  await watches.watch('one', root, OPTIONS);
  await watches.watch('two', root, OPTIONS);
  await listening.watch('other', root, OPTIONS);
  await write('file');
  await rm(join(base, 'file'));
  await write('kept');
  await waitFor('the events', () => seen);
  listening.dispose();
  expect(reported).toEqual([]);
  watches.flush();
  isReady = true;
  watches.flush();
  await heard('one: created kept');
  await heard('two: created kept');
  expect(reported).toHaveLength(2);
});
