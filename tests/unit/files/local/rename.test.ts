import { existsSync, statSync } from 'node:fs';
import { link, mkdir, readdir, readFile, readlink, stat } from 'node:fs/promises';

import { expect, test } from 'vitest';
import { rename } from '../../../../src/files/local/rename.ts';
import { childPath } from '../../../../src/files/native-path.ts';
import { makeTree, temporaryDirectory } from './temporary-tree.ts';

test('renames a file and replaces another one', async () => {
  const root = await temporaryDirectory();
  await makeTree(root, { 'a\xff': 'new', b: 'old' });
  await rename(childPath(root, 'a\xff'), childPath(root, 'b'));
  expect(await readdir(root)).toEqual(['b']);
  expect(await readFile(`${root}/b`, 'utf8')).toBe('new');
});

test('renames a link itself, and a directory with its content over an empty one', async () => {
  const root = await temporaryDirectory();
  await makeTree(root, { link: { link: 'dir' }, 'dir/x': '', empty: null });
  await rename(childPath(root, 'link'), childPath(root, 'moved'));
  expect(await readlink(`${root}/moved`)).toBe('dir');
  await rename(childPath(root, 'dir'), childPath(root, 'empty'));
  expect(await readdir(`${root}/empty`)).toEqual(['x']);
});

test('leaves two hard links of one file unchanged', async () => {
  const root = await temporaryDirectory();
  await makeTree(root, { a: 'x' });
  await link(`${root}/a`, `${root}/b`);
  await rename(childPath(root, 'a'), childPath(root, 'b'));
  await rename(childPath(root, 'a'), childPath(root, 'a'));
  expect(await readdir(root)).toEqual(['a', 'b']);
});

test.each([
  ['missing', 'b', 'notFound', 'No such file or directory (os error 2)'],
  ['file', 'missing/b', 'notFound', 'No such file or directory (os error 2)'],
  ['file', 'dir', 'failed', 'Is a directory (os error 21)'],
  ['dir', 'file', 'failed', 'Not a directory (os error 20)'],
  ['other', 'dir', 'failed', 'Directory not empty (os error 39)'],
  ['dir', 'dir/sub', 'refused', 'Invalid argument (os error 22)'],
])('%s cannot be renamed to %s', async (source, destination, kind, message) => {
  const root = await temporaryDirectory();
  await makeTree(root, { file: '', 'dir/x': '', 'other/y': '' });
  await expect(rename(childPath(root, source), childPath(root, destination))).rejects.toMatchObject({
    kind,
    message,
  });
});

test('reports another file system as a cross-device link', async ({ skip }) => {
  const root = await temporaryDirectory();
  const { dev } = await stat(root);
  const folders = ['/dev/shm', '/tmp', process.cwd()];
  const other = folders.find((folder) => existsSync(folder) && statSync(folder).dev !== dev);
  skip(other === undefined, 'there is no second file system');
  await mkdir(`${root}/x`);
  const destination = childPath(other as typeof root, root.slice(root.lastIndexOf('/') + 1));
  await expect(rename(childPath(root, 'x'), destination)).rejects.toMatchObject({
    kind: 'failed',
    message: 'Cross-device link (os error 18)',
  });
});
