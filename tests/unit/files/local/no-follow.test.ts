import { mkdirSync, readFileSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { refused } from '../../../../src/files/errors.ts';
import { descend, namesOf, OpenDirectory, withParentOpen } from '../../../../src/files/local/no-follow.ts';
import { nativePathOfText } from '../../../../src/files/native-path.ts';
import { NO_ENTRY, NOT_A_DIRECTORY, outcome, Scratch } from './scratch.ts';

const scratch = new Scratch();

test('an entry stays in its directory even when a link replaces that directory', async () => {
  mkdirSync(scratch.at('inside'));
  mkdirSync(scratch.at('outside'));
  writeFileSync(scratch.at('outside/file'), 'outside');

  await withParentOpen(scratch.at('inside/file'), async (entry) => {
    renameSync(scratch.at('inside'), scratch.at('moved'));
    symlinkSync('outside', scratch.at('inside'));
    writeFileSync(entry, 'inside');
  });

  expect(readFileSync(scratch.at('moved/file'), 'utf8')).toBe('inside');
  expect(readFileSync(scratch.at('outside/file'), 'utf8')).toBe('outside');
});

test.each([
  ['ldir/sub/f', NOT_A_DIRECTORY],
  ['dangling/x', NOT_A_DIRECTORY],
  ['loop/x', NOT_A_DIRECTORY],
  ['a.txt/x', NOT_A_DIRECTORY],
  ['fifo/x', NOT_A_DIRECTORY],
  ['missing/x', NO_ENTRY],
  ['/', 'refused: path must name an entry'],
  ['dir/sub/f', 'done'],
  ['missing', 'done'],
])('the parent of %s: %s', async (path, expected) => {
  scratch.populate();
  expect(await outcome(withParentOpen(scratch.at(path), async () => {}))).toBe(expected);
  expect(scratch.openFiles()).toEqual([]);
});

test('closes everything when the use of an entry fails', async () => {
  scratch.populate();
  const failing = withParentOpen(scratch.at('dir/sub/f'), async () => {
    expect(scratch.openFiles()).toEqual([scratch.at('dir/sub')]);
    throw refused('no');
  });
  expect(await outcome(failing)).toBe('refused: no');
  expect(scratch.openFiles()).toEqual([]);
});

test('keeps only one directory open while descending', async () => {
  scratch.populate();
  const held: number[] = [];
  const end = await descend(namesOf(scratch.at('dir/sub')), async (directory, name) => {
    held.push(scratch.openFiles().length);
    return await directory.enter(name);
  });
  expect(Math.max(...held)).toBe(1);
  expect(scratch.openFiles()).toEqual([scratch.at('dir/sub')]);
  await end.close();
});

test('does not open a directory through a link', async () => {
  scratch.populate();
  await expect(OpenDirectory.at(scratch.at('ldir'))).rejects.toThrow('ENOTDIR');
});

test('namesOf returns the names between the separators', () => {
  expect(namesOf(nativePathOfText('/'))).toEqual([]);
  expect(namesOf(nativePathOfText('/a/b c'))).toEqual(['a', 'b c']);
});
