import { execFileSync } from 'node:child_process';
import { mkdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { canonicalize, getMetadata } from '../../../../src/files/local/metadata.ts';
import { nativePathOfBytes } from '../../../../src/files/native-path.ts';
import { LINK_LOOP, LONG_NAME, NO_ENTRY, NOT_A_DIRECTORY, outcome, Scratch, TOO_LONG } from './scratch.ts';

const scratch = new Scratch();
const FOLLOW = { followSymlinks: true };
const NO_FOLLOW = { followSymlinks: false };
const LINK = 'refused: path contains a symbolic link';

function touch(name: string, time: string): void {
  execFileSync('touch', ['-d', time, scratch.at(name)]);
}

test('returns the metadata of a file, with times in whole milliseconds', async () => {
  writeFileSync(scratch.at('a'), 'hello');
  touch('a', '2026-01-02 03:04:05.678999999 UTC');
  const stats = statSync(scratch.at('a'), { bigint: true });
  const expected = {
    isDirectory: false,
    isFile: true,
    isSymlink: false,
    size: 5,
    createdAtMs: Number(stats.birthtimeNs / 1_000_000n),
    modifiedAtMs: Date.UTC(2026, 0, 2, 3, 4, 5, 678),
  };
  expect(await getMetadata(scratch.at('a'), FOLLOW)).toEqual(expected);
  expect(await getMetadata(scratch.at('a'), NO_FOLLOW)).toEqual(expected);
});

test('rounds down a time just below the next millisecond', async () => {
  touch('a', '2026-11-16 00:00:00.999999999 UTC');
  expect((await getMetadata(scratch.at('a'), FOLLOW)).modifiedAtMs).toBe(
    Date.UTC(2026, 10, 16, 0, 0, 0, 999),
  );
});

test('reports a time before 1970 as 0 where links are followed and as negative where not', async () => {
  touch('a', '1969-12-31 23:59:54.4996 UTC');
  expect((await getMetadata(scratch.at('a'), FOLLOW)).modifiedAtMs).toBe(0);
  expect((await getMetadata(scratch.at('a'), NO_FOLLOW)).modifiedAtMs).toBe(-5501);
  touch('a', '1969-12-31 23:59:54.5 UTC');
  expect((await getMetadata(scratch.at('a'), NO_FOLLOW)).modifiedAtMs).toBe(-5500);
});

test.each([
  ['dir', true, false, false],
  ['lfile', false, true, true],
  ['ldir', true, false, true],
  ['ldir/sub', true, false, false],
  ['fifo', false, false, false],
  ['/dev/null', false, false, false],
  ['/', true, false, false],
])('%s: directory %s, file %s, link %s', async (path, isDirectory, isFile, isSymlink) => {
  scratch.populate();
  const metadata = await getMetadata(scratch.at(path), FOLLOW);
  expect(metadata).toMatchObject({ isDirectory, isFile, isSymlink, size: statSync(scratch.at(path)).size });
});

test.each([
  ['dir/sub/f', 'done', 'done'],
  ['fifo', 'done', 'done'],
  ['/', 'done', 'done'],
  ['lfile', 'done', LINK],
  ['ldir', 'done', LINK],
  ['ldir/sub', 'done', NOT_A_DIRECTORY],
  ['dangling', NO_ENTRY, LINK],
  ['loop', LINK_LOOP, LINK],
  ['loop/x', LINK_LOOP, NOT_A_DIRECTORY],
  ['missing', NO_ENTRY, NO_ENTRY],
  ['a.txt/x', NOT_A_DIRECTORY, NOT_A_DIRECTORY],
  [LONG_NAME, TOO_LONG, TOO_LONG],
])('%s: %s; without following: %s', async (path, following, notFollowing) => {
  scratch.populate();
  expect(await outcome(getMetadata(scratch.at(path), FOLLOW))).toBe(following);
  expect(await outcome(getMetadata(scratch.at(path), NO_FOLLOW))).toBe(notFollowing);
  expect(scratch.openFiles()).toEqual([]);
});

test.each([
  ['ldir/sub/f', 'dir/sub/f'],
  ['lfile', 'a.txt'],
  ['fifo', 'fifo'],
  ['dir/../ldir', 'dir'],
])('the real path of %s is %s', async (path, expected) => {
  scratch.populate();
  expect(await canonicalize(nativePathOfBytes(`${scratch.at('.')}/${path}`))).toBe(scratch.at(expected));
});

test.each([
  ['missing', NO_ENTRY],
  ['dangling', NO_ENTRY],
  ['loop', LINK_LOOP],
  ['a.txt/x', NOT_A_DIRECTORY],
  [LONG_NAME, TOO_LONG],
])('%s has no real path: %s', async (path, expected) => {
  scratch.populate();
  expect(await outcome(canonicalize(scratch.at(path)))).toBe(expected);
});

test('preserves names that are not UTF-8', async () => {
  const real = nativePathOfBytes(`${scratch.at('d')}\xff`);
  mkdirSync(Buffer.from(real, 'latin1'));
  symlinkSync(Buffer.from(real, 'latin1'), scratch.at('link'));
  expect(await canonicalize(scratch.at('link'))).toBe(real);
  expect((await getMetadata(real, NO_FOLLOW)).isDirectory).toBe(true);
});
