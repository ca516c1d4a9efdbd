import { truncateSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { READ_FILE_MAX_BYTES } from '../../../../src/files/limits.ts';
import { readFile } from '../../../../src/files/local/read-file.ts';
import { LINK_LOOP, LONG_NAME, NO_ENTRY, NOT_A_DIRECTORY, outcome, Scratch, TOO_LONG } from './scratch.ts';

const scratch = new Scratch();
const FOLLOW = { followSymlinks: true };
const NO_FOLLOW = { followSymlinks: false };
const TOO_LARGE = 'refused: file is too large to read: limit is 536870912 bytes';
const NOT_REGULAR = 'refused: path is not a regular file';

async function readAll(path: string, options = FOLLOW): Promise<string> {
  const content = await readFile(scratch.at(path), options);
  try {
    const buffer = Buffer.alloc(100_000);
    return buffer.toString('utf8', 0, await content.read(buffer));
  } finally {
    await content.close();
  }
}

test('reads content from the start in blocks of any size, with a short block at the end', async () => {
  writeFileSync(scratch.at('a'), 'hello');
  const content = await readFile(scratch.at('a'), FOLLOW);
  const buffer = Buffer.alloc(3);
  expect(content.size).toBe(5);
  expect([await content.read(buffer), buffer.toString('utf8', 0, 3)]).toEqual([3, 'hel']);
  expect([await content.read(buffer), buffer.toString('utf8', 0, 2)]).toEqual([2, 'lo']);
  expect(await content.read(buffer)).toBe(0);
  expect(scratch.openFiles()).toHaveLength(1);
  await content.close();
  expect(scratch.openFiles()).toEqual([]);
});

test('reads files without a size to their end', async () => {
  const content = await readFile(scratch.at('/proc/self/status'), FOLLOW);
  await content.close();
  expect(content.size).toBe(0);
  expect(await readAll('/proc/self/status')).toContain('\nPid:');
});

test('an empty file has no content', async () => {
  writeFileSync(scratch.at('a'), '');
  expect(await readAll('a')).toBe('');
});

test.each([
  ['a.txt', 'done', 'done'],
  ['lfile', 'done', LINK_LOOP],
  ['ldir/sub/f', 'done', NOT_A_DIRECTORY],
  ['dir', 'refused: path `dir` is not a file', NOT_REGULAR],
  ['fifo', 'refused: path `fifo` is not a file', NOT_REGULAR],
  ['/dev/null', 'refused: path `/dev/null` is not a file', NOT_REGULAR],
  ['/', 'refused: path `/` is not a file', 'refused: path must name an entry'],
  ['dangling', NO_ENTRY, LINK_LOOP],
  ['loop', LINK_LOOP, LINK_LOOP],
  ['missing', NO_ENTRY, NO_ENTRY],
  ['a.txt/x', NOT_A_DIRECTORY, NOT_A_DIRECTORY],
  [LONG_NAME, TOO_LONG, TOO_LONG],
])('%s: %s; without following: %s', async (path, following, notFollowing) => {
  scratch.populate();
  const base = scratch.at('.');
  expect((await outcome(readAll(path))).replace(`${base}/`, '')).toBe(following);
  expect(await outcome(readAll(path, NO_FOLLOW))).toBe(notFollowing);
  expect(scratch.openFiles()).toEqual([]);
});

test.each([FOLLOW, NO_FOLLOW])('rejects a file above the limit before reading it (%o)', async (options) => {
  writeFileSync(scratch.at('big'), '');
  truncateSync(scratch.at('big'), READ_FILE_MAX_BYTES + 1);
  expect(await outcome(readFile(scratch.at('big'), options))).toBe(TOO_LARGE);
  expect(scratch.openFiles()).toEqual([]);

  truncateSync(scratch.at('big'), READ_FILE_MAX_BYTES);
  const content = await readFile(scratch.at('big'), options);
  expect(content.size).toBe(READ_FILE_MAX_BYTES);
  await content.close();
});

test('reads a file that grows above the limit only up to the limit', async () => {
  writeFileSync(scratch.at('grows'), '');
  const content = await readFile(scratch.at('grows'), FOLLOW);
  truncateSync(scratch.at('grows'), READ_FILE_MAX_BYTES + 1);
  const buffer = Buffer.alloc(READ_FILE_MAX_BYTES / 16);
  for (let piece = 0; piece < 16; piece++) expect(await content.read(buffer)).toBe(buffer.length);
  expect(await outcome(content.read(buffer))).toBe(TOO_LARGE);
  await content.close();
});
