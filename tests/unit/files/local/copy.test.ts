import { execFileSync } from 'node:child_process';
import { chmod, link, lstat, mkdir, readdir, readFile, readlink, stat, writeFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { CLONE_MIN_BYTES, COPY_BLOCK_BYTES } from '../../../../src/files/limits.ts';
import { copy } from '../../../../src/files/local/copy.ts';
import { childPath, type NativePath, nativePathOfBytes } from '../../../../src/files/native-path.ts';
import { makeTree, type Tree, temporaryDirectory } from './temporary-tree.ts';

const DESCENDANT = 'fs/copy cannot copy a directory to itself or one of its descendants';
const EXISTS = 'File exists (os error 17)';

/** A directory with the tree in it, and copying by names within it. */
async function workplace(tree: Tree) {
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
])('a file of %i bytes is copied, also over a longer one', async (size) => {
  const { root, copy } = await workplace({ old: 'o'.repeat(size + 10) });
  const bytes = Buffer.from(Array.from({ length: size }, (_, index) => (index * 31 + (index >> 8)) & 0xff));
  await writeFile(`${root}/a`, bytes);
  await copy('a', 'new', false);
  await copy('a', 'old', false);
  expect((await readFile(`${root}/new`)).equals(bytes)).toBe(true);
  expect((await readFile(`${root}/old`)).equals(bytes)).toBe(true);
});

test('permissions are copied, also over an existing file and beyond the umask', async () => {
  const { root, copy } = await workplace({ a: 'a', b: 'b', locked: 'l' });
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

test('a file onto itself stays as it is, by any name', async () => {
  const { root, copy, text } = await workplace({ a: 'content', soft: { link: 'a' } });
  await link(`${root}/a`, `${root}/hard`);
  await copy('a', 'a');
  await copy('a', 'hard');
  await copy('a', 'soft');
  expect(await text('a')).toBe('content');
});

test('a link at the destination is followed, also to a file that does not exist yet', async () => {
  const { root, copy, text } = await workplace({
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

test('a file that the kernel makes up is copied whatever size it says', async () => {
  const { copy: _, root } = await workplace({});
  const destination = childPath(root, 'version');
  await copy(nativePathOfBytes('/proc/version'), destination, { recursive: false });
  expect(await readFile(destination, 'utf8')).toBe(await readFile('/proc/version', 'utf8'));
});

test('a device takes the bytes and keeps its mode', async () => {
  const { root } = await workplace({ a: 'content' });
  await chmod(`${root}/a`, 0o600);
  const before = (await stat('/dev/null')).mode;
  await copy(childPath(root, 'a'), nativePathOfBytes('/dev/null'), { recursive: false });
  expect((await stat('/dev/null')).mode).toBe(before);
});

test('a link is copied as it is, wherever it leads', async () => {
  const { root, copy } = await workplace({
    nowhere: { link: '../some/where' },
    d: null,
    'to-d': { link: 'd' },
  });
  await copy('nowhere', 'n', false);
  await copy('to-d', 'd2', false);
  expect(await readlink(`${root}/n`)).toBe('../some/where');
  expect(await readlink(`${root}/d2`)).toBe('d');
});

test('a directory is copied with its parents made, without modes, special files left out', async () => {
  const { root, copy, text } = await workplace({
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

test('a directory is merged into one that exists, through links too', async () => {
  const { root, copy, text } = await workplace({
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

test('many entries are all copied', async () => {
  const { root, copy } = await workplace({ s: null });
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
])('the directory %s cannot be copied to %s', async (source, destination) => {
  const { root, copy } = await workplace({
    's/a': 'x',
    'to-s': { link: 's' },
    'parent/child': null,
    'to-child': { link: 'parent/child' },
  });
  await expect(copy(source, destination)).rejects.toMatchObject({ kind: 'refused', message: DESCENDANT });
  expect(await readdir(`${root}/s`)).toEqual(['a']);
  expect(await readdir(`${root}/parent/child`)).toEqual([]);
});

test('a destination that leads back into the source is refused before the source grows', async () => {
  const { root, copy } = await workplace({
    's/sub/x/y': 'y',
    d: null,
    'd/sub': { link: '../s/sub/x' },
  });
  await expect(copy('s', 'd')).rejects.toMatchObject({ kind: 'refused', message: DESCENDANT });
  expect(await readdir(`${root}/s/sub/x`)).toEqual(['y']);
});

test('a sibling whose name begins alike is no descendant', async () => {
  const { copy, text } = await workplace({ 's/a': 'A' });
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
])('%s cannot be copied to %s', async (source, destination, kind, message) => {
  const { root, copy } = await workplace({
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

test('a directory is only copied when that is asked for', async () => {
  const { copy } = await workplace({ s: null });
  await expect(copy('s', 'd', false)).rejects.toMatchObject({
    kind: 'refused',
    message: 'fs/copy requires recursive: true when sourcePath is a directory',
  });
});
