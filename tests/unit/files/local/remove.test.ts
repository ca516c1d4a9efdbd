import { execFileSync } from 'node:child_process';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { expect, test } from 'vitest';
import { REMOVE_MAX_DEPTH, REMOVE_NAMES_PER_BATCH } from '../../../../src/files/limits.ts';
import { remove } from '../../../../src/files/local/remove.ts';
import {
  LINK_LOOP,
  LONG_NAME,
  NO_ENTRY,
  NOT_A_DIRECTORY,
  NOT_EMPTY,
  outcome,
  Scratch,
  TOO_LONG,
} from './scratch.ts';

const scratch = new Scratch();
const TREE = { recursive: true, force: false, followSymlinks: true };
const SINGLE = { recursive: false, force: false, followSymlinks: true };
const NO_FOLLOW = { recursive: false, force: false, followSymlinks: false };
const LINK = 'refused: path contains a symbolic link';

/** Paths and their outcomes: recursive, not recursive, and not recursive without following links. */
test.each([
  ['a.txt', 'done', 'done', 'done'],
  ['empty', 'done', 'done', 'done'],
  ['dir', 'done', NOT_EMPTY, NOT_EMPTY],
  ['fifo', 'done', 'done', 'done'],
  ['lfile', 'done', 'done', LINK],
  ['ldir', 'done', 'done', LINK],
  ['dangling', 'done', 'done', LINK],
  ['loop', 'done', 'done', LINK],
  ['ldir/sub', 'done', NOT_EMPTY, NOT_A_DIRECTORY],
  ['missing', NO_ENTRY, NO_ENTRY, NO_ENTRY],
  ['missing/x', NO_ENTRY, NO_ENTRY, NO_ENTRY],
  ['dangling/x', NO_ENTRY, NO_ENTRY, NOT_A_DIRECTORY],
  ['a.txt/x', NOT_A_DIRECTORY, NOT_A_DIRECTORY, NOT_A_DIRECTORY],
  ['loop/x', LINK_LOOP, LINK_LOOP, NOT_A_DIRECTORY],
  [LONG_NAME, TOO_LONG, TOO_LONG, TOO_LONG],
])('%s: recursive %s; single %s; without following: %s', async (path, ...expected) => {
  for (const [index, options] of [TREE, SINGLE, NO_FOLLOW].entries()) {
    for (const force of [false, true]) {
      const place = `place${index}${force}`;
      mkdirSync(scratch.at(place));
      scratch.populate(place);
      const before = readdirSync(scratch.at(place));
      const target = scratch.at(`${place}/${path}`);
      const answer = expected[index] === NO_ENTRY && force ? 'done' : expected[index]!;

      expect(await outcome(remove(target, { ...options, force })), `${index} ${force}`).toBe(answer);
      const gone = before.filter(
        (name) => lstatSync(scratch.at(`${place}/${name}`), { throwIfNoEntry: false }) === undefined,
      );
      expect(gone).toEqual(expected[index] === 'done' && !path.includes('/') ? [path] : []);
    }
  }
  expect(scratch.openFiles()).toEqual([]);
});

test('rejects a recursive removal without following links before checking anything', async () => {
  const answer = await outcome(
    remove(scratch.at('missing'), { recursive: true, force: true, followSymlinks: false }),
  );
  expect(answer).toBe('failed: recursive no-follow removal is unsupported');
});

test('does not remove the root', async () => {
  expect(await outcome(remove(scratch.at('/'), SINGLE))).toBe('failed: Resource busy (os error 16)');
  expect(await outcome(remove(scratch.at('/'), NO_FOLLOW))).toBe('refused: path must name an entry');
});

test('removes links in a tree and leaves their targets', async () => {
  mkdirSync(scratch.at('kept'));
  writeFileSync(scratch.at('kept/file'), 'x');
  mkdirSync(scratch.at('tree/below'), { recursive: true });
  symlinkSync('../kept', scratch.at('tree/link'));
  symlinkSync('../../kept/file', scratch.at('tree/below/link'));
  symlinkSync('nowhere', scratch.at('tree/below/dangling'));
  scratch.fifo('tree/below/fifo');
  writeFileSync(Buffer.concat([Buffer.from(`${scratch.at('tree/below')}/`), Buffer.from([0xff, 0xe9])]), '');

  expect(await outcome(remove(scratch.at('tree'), TREE))).toBe('done');
  expect(existsSync(scratch.at('tree'))).toBe(false);
  expect(readdirSync(scratch.at('kept'))).toEqual(['file']);
  expect(scratch.openFiles()).toEqual([]);
});

test('removes a directory with more entries than one batch', async () => {
  mkdirSync(scratch.at('many'));
  const names = `${REMOVE_NAMES_PER_BATCH + 1}`;
  execFileSync('sh', ['-c', 'seq "$1" | xargs touch', 'sh', names], { cwd: scratch.at('many') });
  expect(readdirSync(scratch.at('many'))).toHaveLength(REMOVE_NAMES_PER_BATCH + 1);
  expect(await outcome(remove(scratch.at('many'), TREE))).toBe('done');
  expect(existsSync(scratch.at('many'))).toBe(false);
});

test('removes trees as deep as the limit, rejects deeper ones, and leaves nothing open', async () => {
  makeDeep('deep', REMOVE_MAX_DEPTH);
  expect(await outcome(remove(scratch.at('deep'), TREE))).toBe('done');
  expect(existsSync(scratch.at('deep'))).toBe(false);

  makeDeep('deeper', REMOVE_MAX_DEPTH + 1);
  expect(await outcome(remove(scratch.at('deeper'), TREE))).toBe(TOO_LONG);
  expect(scratch.openFiles()).toEqual([]);
  execFileSync('rm', ['-r', scratch.at('deeper')]);
});

test('concurrent calls can remove the same tree', async () => {
  mkdirSync(scratch.at('tree'));
  for (let index = 0; index < 50; index++) {
    mkdirSync(scratch.at(`tree/${index}`));
    writeFileSync(scratch.at(`tree/${index}/file`), '');
  }
  const forced = { ...TREE, force: true };
  await Promise.all([remove(scratch.at('tree'), forced), remove(scratch.at('tree'), forced)]);
  expect(existsSync(scratch.at('tree'))).toBe(false);
});

/** Nested directories, created from the innermost outwards: the path of the innermost is longer than PATH_MAX. */
function makeDeep(name: string, levels: number): void {
  const top = scratch.at(name);
  const above = scratch.at('above');
  for (let made = 0; made < levels; ) {
    const added = Math.min(500, levels - made);
    const bottom = above + '/d'.repeat(added - 1);
    mkdirSync(bottom, { recursive: true });
    if (made > 0) renameSync(top, `${bottom}/d`);
    renameSync(above, top);
    made += added;
  }
}
