import { execFileSync } from 'node:child_process';
import { chmod, link, lstat, mkdir, readdir, readFile, readlink, stat, writeFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { CLONE_MIN_BYTES, COPY_BLOCK_BYTES } from '../../../../src/files/limits.ts';
import { copy } from '../../../../src/files/local/copy.ts';
import { childPath, type NativePath, nativePathOfBytes } from '../../../../src/files/native-path.ts';
import { makeTree, type Tree, temporaryDirectory } from './temporary-tree.ts';

const DESCENDANT = 'fs/copy cannot copy a directory to itself or one of its descendants';
const EXISTS = 'File exists (os error 17)';

/** A directory with the tree, and a copy function with names relative to it. */
async function copyFixture(tree: Tree) {
  const root = await temporaryDirectory();
  await makeTree(root, tree);
  return {
    root,
    copy: (source: string, destination: string, recursive = true) =>
      copy(childPath(root, source), childPath(root, destination), { recursive }),
    text: (name: string) => readFile(Buffer.from(`${root}/${name}`, 'latin1'), 'utf8'),
  };
}

async function modeOf(root: NativePath, name: string): Promise<string> {
  return ((await stat(`${root}/${name}`)).mode & 0o7777).toString(8);
}

test.each([
  0,
  1,
  1000,
  COPY_BLOCK_BYTES - 1,
  COPY_BLOCK_BYTES,
  COPY_BLOCK_BYTES + 1,
  CLONE_MIN_BYTES + COPY_BLOCK_BYTES + 7,
])('copies a file of %i bytes, also over a longer one', async (size) => {
  const { root, copy } = await copyFixture({ old: 'o'.repeat(size + 10) });
  const bytes = Buffer.from(Array.from({ length: size }, (_, index) => (index * 31 + (index >> 8)) & 0xff));
  await writeFile(`${root}/a`, bytes);
  await copy('a', 'new', false);
  await copy('a', 'old', false);
  expect((await readFile(`${root}/new`)).equals(bytes)).toBe(true);
  expect((await readFile(`${root}/old`)).equals(bytes)).toBe(true);
});

test('copies permissions, also over an existing file and regardless of the umask', async () => {
  const { root, copy } = await copyFixture({ a: 'a', b: 'b', locked: 'l' });
  await chmod(`${root}/a`, 0o777);
  await chmod(`${root}/b`, 0o600);
  await chmod(`${root}/locked`, 0o444);
  await copy('a', 'b');
  await copy('a', 'new');
  await copy('locked', 'locked2');
  expect(await modeOf(root, 'b')).toBe('777');
  expect(await modeOf(root, 'new')).toBe('777');
  expect(await modeOf(root, 'locked2')).toBe('444');
});

test('leaves a file unchanged that is copied to itself, by any name', async () => {
  const { root, copy, text } = await copyFixture({ a: 'content', soft: { link: 'a' } });
  await link(`${root}/a`, `${root}/hard`);
  await copy('a', 'a');
  await copy('a', 'hard');
  await copy('a', 'soft');
  expect(await text('a')).toBe('content');
});

test('follows a link at the destination, also to a missing file', async () => {
  const { root, copy, text } = await copyFixture({
    a: 'new',
    b: 'old',
    'to-b': { link: 'b' },
    'to-c': { link: 'c' },
  });
  await copy('a', 'to-b');
  await copy('a', 'to-c');
  expect([await text('b'), await text('c')]).toEqual(['new', 'new']);
  expect(await readlink(`${root}/to-c`)).toBe('c');
});

test('copies a file that the kernel generates, whatever its size', async () => {
  const { copy: _, root } = await copyFixture({});
  const destination = childPath(root, 'version');
  await copy(nativePathOfBytes('/proc/version'), destination, { recursive: false });
  expect(await readFile(destination, 'utf8')).toBe(await readFile('/proc/version', 'utf8'));
});

test('writes to a device and keeps its mode', async () => {
  const { root } = await copyFixture({ a: 'content' });
  await chmod(`${root}/a`, 0o600);
  const before = (await stat('/dev/null')).mode;
  await copy(childPath(root, 'a'), nativePathOfBytes('/dev/null'), { recursive: false });
  expect((await stat('/dev/null')).mode).toBe(before);
});

test('copies a link as a link, whatever its target', async () => {
  const { root, copy } = await copyFixture({
    nowhere: { link: '../some/where' },
    d: null,
    'to-d': { link: 'd' },
  });
  await copy('nowhere', 'n', false);
  await copy('to-d', 'd2', false);
  expect(await readlink(`${root}/n`)).toBe('../some/where');
  expect(await readlink(`${root}/d2`)).toBe('d');
});

test('copies a directory, creates its parents, and skips modes and special files', async () => {
  const { root, copy, text } = await copyFixture({
    's/a': 'A',
    's/sub/b\xff': 'B',
    's/locked/c': 'C',
    's/to-dir': { link: '../s' },
  });
  await chmod(`${root}/s/a`, 0o751);
  await chmod(`${root}/s/locked`, 0o500);
  execFileSync('mkfifo', [`${root}/s/fifo`]);
  await mkdir(`${root}/plain`);
  await copy('s', 'x/y/z');
  expect(await readdir(`${root}/x/y/z`)).toEqual(['a', 'locked', 'sub', 'to-dir']);
  expect(await text('x/y/z/sub/b\xff')).toBe('B');
  expect(await readlink(`${root}/x/y/z/to-dir`)).toBe('../s');
  expect(await modeOf(root, 'x/y/z/a')).toBe('751');
  expect(await modeOf(root, 'x/y/z/locked')).toBe(await modeOf(root, 'plain'));
});

test('merges a directory into an existing one, also through links', async () => {
  const { root, copy, text } = await copyFixture({
    's/a': 'new',
    's/sub/b': 'B',
    'd/a': 'old',
    'd/kept': 'kept',
    'd/sub': { link: '../elsewhere' },
    elsewhere: null,
    'to-d': { link: 'd' },
  });
  await copy('s', 'to-d');
  expect([await text('d/a'), await text('d/kept'), await text('elsewhere/b')]).toEqual(['new', 'kept', 'B']);
  expect((await lstat(`${root}/d/sub`)).isSymbolicLink()).toBe(true);
});

test('copies many entries', async () => {
  const { root, copy } = await copyFixture({ s: null });
  execFileSync('sh', ['-c', 'seq 3000 | xargs touch'], { cwd: `${root}/s` });
  await copy('s', 'd');
  expect(await readdir(`${root}/d`)).toEqual(await readdir(`${root}/s`));
});

test.each([
  ['s', 's'],
  ['s', 's/new/deeper'],
  ['s', 's/a'],
  ['s', 's/a/below-a-file'],
  ['s', `s/${'x'.repeat(256)}`],
  ['s', 'to-s'],
  ['s', 'to-s/x'],
  ['parent', 'to-child/x'],
])('rejects copying the directory %s to %s', async (source, destination) => {
  const { root, copy } = await copyFixture({
    's/a': 'x',
    'to-s': { link: 's' },
    'parent/child': null,
    'to-child': { link: 'parent/child' },
  });
  await expect(copy(source, destination)).rejects.toMatchObject({ kind: 'refused', message: DESCENDANT });
  expect(await readdir(`${root}/s`)).toEqual(['a']);
  expect(await readdir(`${root}/parent/child`)).toEqual([]);
});

test('rejects a destination that leads back into the source before the source grows', async () => {
  const { root, copy } = await copyFixture({
    's/sub/x/y': 'y',
    d: null,
    'd/sub': { link: '../s/sub/x' },
  });
  await expect(copy('s', 'd')).rejects.toMatchObject({ kind: 'refused', message: DESCENDANT });
  expect(await readdir(`${root}/s/sub/x`)).toEqual(['y']);
});

test('a sibling with the same name prefix is not a descendant', async () => {
  const { copy, text } = await copyFixture({ 's/a': 'A' });
  await copy('s', 's2');
  expect(await text('s2/a')).toBe('A');
});

test.each([
  ['missing', 'x', 'notFound', 'No such file or directory (os error 2)'],
  ['file', 'missing/x', 'notFound', 'No such file or directory (os error 2)'],
  ['link', 'missing/x', 'notFound', 'No such file or directory (os error 2)'],
  ['file', 'dir', 'failed', 'Is a directory (os error 21)'],
  ['file', 'other/x', 'failed', 'Not a directory (os error 20)'],
  ['file', 'fifo', 'failed', 'No such device or address (os error 6)'],
  ['link', 'file', 'failed', EXISTS],
  ['link', 'link', 'failed', EXISTS],
  ['link', 'dir', 'failed', EXISTS],
  ['dir', 'file', 'failed', EXISTS],
  ['dir', 'nowhere', 'failed', EXISTS],
  ['dir', 'nowhere/x', 'failed', EXISTS],
  ['dir', 'file/x', 'failed', 'Not a directory (os error 20)'],
  ['dir', 'with-link', 'failed', EXISTS],
  ['dir', 'with-file', 'failed', EXISTS],
  ['dir', 'with-dir', 'failed', 'Is a directory (os error 21)'],
  ['fifo', 'x', 'refused', 'fs/copy only supports regular files, directories, and symlinks'],
])('rejects copying %s to %s', async (source, destination, kind, message) => {
  const { root, copy } = await copyFixture({
    file: 'x',
    other: 'y',
    link: { link: 'file' },
    nowhere: { link: 'missing' },
    'dir/l': { link: 'file' },
    'dir/sub/s': '',
    'dir/f': '',
    'with-link/l': { link: 'file' },
    'with-file/sub': '',
    'with-dir/f': null,
  });
  execFileSync('mkfifo', [`${root}/fifo`]);
  await expect(copy(source, destination)).rejects.toMatchObject({ kind, message });
});

test('copies a directory only with recursive', async () => {
  const { copy } = await copyFixture({ s: null });
  await expect(copy('s', 'd', false)).rejects.toMatchObject({
    kind: 'refused',
    message: 'fs/copy requires recursive: true when sourcePath is a directory',
  });
});
