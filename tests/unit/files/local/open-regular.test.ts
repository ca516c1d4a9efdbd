import { closeSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { openRegularForReading, openRegularNoFollow } from '../../../../src/files/local/open-regular.ts';
import { nativePathOfBytes } from '../../../../src/files/native-path.ts';
import { outcome, Scratch } from './scratch.ts';

const scratch = new Scratch();

test('opens a regular file and returns its size', async () => {
  writeFileSync(scratch.at('a'), 'hello');
  const { fd, size } = await openRegularForReading(scratch.at('a'));
  expect(size).toBe(5);
  expect(readFileSync(fd, 'utf8')).toBe('hello');
  closeSync(fd);
});

test('an error contains the path as text and leaves nothing open', async () => {
  const path = nativePathOfBytes(`${scratch.at('d')}\xc3\xa9\xff`);
  mkdirSync(Buffer.from(path, 'latin1'));
  expect(await outcome(openRegularForReading(path))).toBe(
    `refused: path \`${scratch.at('d')}é\uFFFD\` is not a file`,
  );
  expect(await outcome(openRegularNoFollow(path))).toBe('refused: path is not a regular file');
  expect(scratch.openFiles()).toEqual([]);
});

test('rejects a FIFO without waiting for a writer', async () => {
  const path = scratch.fifo('fifo');
  expect(await outcome(openRegularForReading(path))).toBe(`refused: path \`${path}\` is not a file`);
});
