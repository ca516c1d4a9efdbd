import { existsSync, lstatSync, mkdirSync, statSync } from 'node:fs';
import { expect, test } from 'vitest';
import { createDirectory } from '../../../../src/files/local/create-directory.ts';
import {
  EXISTS,
  LINK_LOOP,
  LONG_NAME,
  NO_ENTRY,
  NOT_A_DIRECTORY,
  outcome,
  Scratch,
  TOO_LONG,
} from './scratch.ts';

const scratch = new Scratch();

/** Paths and their outcomes: recursive, not recursive, and both again without following links. */
test.each([
  ['missing', 'done', 'done', 'done', 'done'],
  ['missing/x/y', 'done', NO_ENTRY, 'done', NO_ENTRY],
  ['dir', 'done', EXISTS, 'done', EXISTS],
  ['a.txt', EXISTS, EXISTS, NOT_A_DIRECTORY, EXISTS],
  ['fifo', EXISTS, EXISTS, NOT_A_DIRECTORY, EXISTS],
  ['lfile', EXISTS, EXISTS, NOT_A_DIRECTORY, EXISTS],
  ['ldir', 'done', EXISTS, NOT_A_DIRECTORY, EXISTS],
  ['ldir/new', 'done', 'done', NOT_A_DIRECTORY, NOT_A_DIRECTORY],
  ['dangling', EXISTS, EXISTS, NOT_A_DIRECTORY, EXISTS],
  ['dangling/x', EXISTS, NO_ENTRY, NOT_A_DIRECTORY, NOT_A_DIRECTORY],
  ['loop', EXISTS, EXISTS, NOT_A_DIRECTORY, EXISTS],
  ['loop/x', LINK_LOOP, LINK_LOOP, NOT_A_DIRECTORY, NOT_A_DIRECTORY],
  ['a.txt/x', NOT_A_DIRECTORY, NOT_A_DIRECTORY, NOT_A_DIRECTORY, NOT_A_DIRECTORY],
  [`${LONG_NAME}/x`, TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG],
  ['/', 'done', EXISTS, 'done', 'failed: directory already exists'],
])('%s: %s; %s; without following: %s; %s', async (path, ...expected) => {
  for (const [index, options] of ALL_OPTIONS.entries()) {
    const place = `place${index}`;
    mkdirSync(scratch.at(place));
    scratch.populate(place);
    const target = scratch.at(path.startsWith('/') ? path : `${place}/${path}`);
    expect(await outcome(createDirectory(target, options)), JSON.stringify(options)).toBe(expected[index]);
    expect(existsSync(target) && statSync(target).isDirectory()).toBe(
      expected[index] === 'done' || ['dir', 'ldir', '/'].includes(path),
    );
  }
  expect(scratch.openFiles()).toEqual([]);
});

test.each([true, false])(
  'new directories have the default mode (followSymlinks: %s)',
  async (followSymlinks) => {
    mkdirSync(scratch.at('usual'));
    await createDirectory(scratch.at('a/b'), { recursive: true, followSymlinks });
    expect(lstatSync(scratch.at('a')).mode).toBe(lstatSync(scratch.at('usual')).mode);
    expect(lstatSync(scratch.at('a/b')).mode).toBe(lstatSync(scratch.at('usual')).mode);
  },
);

test.each([true, false])(
  'concurrent calls can create the same tree (followSymlinks: %s)',
  async (followSymlinks) => {
    const path = scratch.at('a/b/c/d/e');
    const options = { recursive: true, followSymlinks };
    await Promise.all(Array.from({ length: 20 }, () => createDirectory(path, options)));
    expect(statSync(path).isDirectory()).toBe(true);
  },
);

const ALL_OPTIONS = [
  { followSymlinks: true, recursive: true },
  { followSymlinks: true, recursive: false },
  { followSymlinks: false, recursive: true },
  { followSymlinks: false, recursive: false },
] as const;
