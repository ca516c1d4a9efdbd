import { execFileSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { MAX_DIRECTORY_ENTRIES } from '../../../../src/files/limits.ts';
import { readDirectory } from '../../../../src/files/local/read-directory.ts';
import { nativePathOfBytes } from '../../../../src/files/native-path.ts';
import { makeTree, temporaryDirectory } from './temporary-tree.ts';

const FILE = { isDirectory: false, isFile: true };
const DIRECTORY = { isDirectory: true, isFile: false };

async function listing(path: string) {
  const entries = await readDirectory(nativePathOfBytes(path));
  return Object.fromEntries(entries.map(({ name, isDirectory, isFile }) => [name, { isDirectory, isFile }]));
}

/** Empty files `1` to `count`. */
function makeFiles(path: string, count: number): void {
  execFileSync('sh', ['-c', `seq ${count} | xargs touch`], { cwd: path });
}

test('entries are files, directories or neither, and links have the type of their target', async () => {
  const root = await temporaryDirectory();
  await makeTree(root, {
    file: 'x',
    'dir/inner': 'y',
    'to-file': { link: 'file' },
    'to-dir': { link: 'dir' },
    'to-nowhere': { link: 'missing' },
    'to-itself': { link: 'to-itself' },
    'not-\xff-text': 'z',
  });
  execFileSync('mkfifo', [`${root}/fifo`]);
  expect(await listing(root)).toEqual({
    file: FILE,
    dir: DIRECTORY,
    'to-file': FILE,
    'to-dir': DIRECTORY,
    'not-\xff-text': FILE,
    fifo: { isDirectory: false, isFile: false },
  });
});

test('lists a directory through a link and a directory whose name is not UTF-8', async () => {
  const root = await temporaryDirectory();
  await makeTree(root, { 'd\xfe/a': '', link: { link: 'empty' }, empty: null });
  expect(await listing(`${root}/d\xfe`)).toEqual({ a: FILE });
  expect(await listing(`${root}/link`)).toEqual({});
});

test.each([
  ['missing', 'notFound', 'No such file or directory (os error 2)'],
  ['file', 'failed', 'Not a directory (os error 20)'],
  ['file/x', 'failed', 'Not a directory (os error 20)'],
])('rejects listing %s', async (name, kind, message) => {
  const root = await temporaryDirectory();
  await makeTree(root, { file: '' });
  await expect(readDirectory(nativePathOfBytes(`${root}/${name}`))).rejects.toMatchObject({ kind, message });
});

test('lists a large directory up to the limit, and counts beyond it', async () => {
  const root = await temporaryDirectory();
  makeFiles(root, MAX_DIRECTORY_ENTRIES);
  await makeTree(root, { 'to-nowhere': { link: 'missing' } });
  const names = (await readDirectory(root)).map(({ name }) => Number(name));
  expect(names).toHaveLength(MAX_DIRECTORY_ENTRIES);
  expect(new Set(names).size).toBe(MAX_DIRECTORY_ENTRIES);

  await makeTree(root, { b: '', c: '' });
  await expect(readDirectory(root)).rejects.toMatchObject({
    kind: 'failed',
    message: 'fs/readDirectory returned 50002 entries; limit is 50000',
  });
}, 120_000);
