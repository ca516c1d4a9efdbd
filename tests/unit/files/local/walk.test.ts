import { execFileSync } from 'node:child_process';
import { mkdir, rename } from 'node:fs/promises';
import { expect, test } from 'vitest';
import type { WalkOptions } from '../../../../src/files/file-system.ts';
import { walk } from '../../../../src/files/local/walk.ts';
import { childPath, type NativePath, nativePathOfBytes } from '../../../../src/files/native-path.ts';
import { EVERYTHING } from '../walk-options.ts';
import { makeTree, temporaryDirectory } from './temporary-tree.ts';

const NEVER = new AbortController().signal;

/** Walks with URIs relative to the root; directories end in a slash. */
async function walked(root: NativePath, options: Partial<WalkOptions> = {}) {
  const { entries, errors, truncated } = await walk(root, { ...EVERYTHING, ...options }, NEVER);
  const start = `file://${root}/`;
  return {
    paths: entries.map(({ uri, kind }) => uri.replace(start, '') + (kind === 'directory' ? '/' : '')),
    errors: errors.map(({ uri, message }) => `${uri.replace(start, '')}: ${message}`),
    truncated,
  };
}

async function mixedTree(): Promise<NativePath> {
  const root = await temporaryDirectory();
  await makeTree(root, {
    'b/c': null,
    'b/f': '',
    'b/up': { link: '..' },
    '.h/x': '',
    z: '',
    a: { link: 'b' },
    'to-z': { link: 'z' },
    nowhere: { link: 'missing' },
    loop: { link: 'loop' },
  });
  execFileSync('mkfifo', [`${root}/p`]);
  return root;
}

test('returns files and directories breadth first, in byte order', async () => {
  const root = await temporaryDirectory();
  await makeTree(root, { 'd/2': '', 'd/10': '', 'd/1/x': '', B: '', a: '', '.g/y': '', 'e/q': '' });
  expect(await walked(root)).toEqual({
    paths: ['.g/', 'B', 'a', 'd/', 'e/', '.g/y', 'd/1/', 'd/10', 'd/2', 'e/q', 'd/1/x'],
    errors: [],
    truncated: false,
  });
});

test('omits links and special files', async () => {
  expect(await walked(await mixedTree())).toEqual({
    paths: ['.h/', 'b/', 'z', '.h/x', 'b/c/', 'b/f'],
    errors: [],
    truncated: false,
  });
});

test('enters a directory with several links once, under the first name', async () => {
  expect(await walked(await mixedTree(), { followDirectorySymlinks: true })).toEqual({
    paths: ['.h/', 'a/', 'b/', 'z', '.h/x', 'a/c/', 'a/f', 'a/up/'],
    errors: [],
    truncated: false,
  });
});

test('lists a directory under a link that is found first', async () => {
  const root = await temporaryDirectory();
  await makeTree(root, { 'b/c/kk': null, k: { link: 'b/c' } });
  const { paths } = await walked(root, { followDirectorySymlinks: true });
  expect(paths).toEqual(['b/', 'k/', 'b/c/', 'k/kk/']);
});

test('counts the depth from the children of the root', async () => {
  const root = await temporaryDirectory();
  await makeTree(root, { 'a/b/c/d': '' });
  expect(await walked(root, { maxDepth: 0 })).toEqual({ paths: ['a/'], errors: [], truncated: false });
  expect((await walked(root, { maxDepth: 2 })).paths).toEqual(['a/', 'a/b/', 'a/b/c/']);
});

test('can list hidden directories without entering them', async () => {
  const root = await temporaryDirectory();
  await makeTree(root, { '.g/y': '', '.f': '', 'a/.k/l': '' });
  const { paths } = await walked(root, { pruneHiddenDirectories: true });
  expect(paths).toEqual(['.f', '.g/', 'a/', 'a/.k/']);
});

test.each([
  [1, ['.h/'], true],
  [2, ['.h/'], true],
  [3, ['.h/', 'b/'], true],
  [5, ['.h/', 'b/'], true],
  [6, ['.h/', 'b/', 'z'], true],
  [9, ['.h/', 'b/', 'z', '.h/x', 'b/c/', 'b/f'], true],
  [10, ['.h/', 'b/', 'z', '.h/x', 'b/c/', 'b/f'], false],
])(
  'examines %i entries, including special files and links with a target',
  async (maxEntries, paths, truncated) => {
    expect(await walked(await mixedTree(), { maxEntries })).toEqual({ paths, errors: [], truncated });
  },
);

test('lists directories beyond the limit without entering them', async () => {
  const root = await temporaryDirectory();
  await makeTree(root, { 'a/1': '', 'b/2': '', c: '' });
  const { paths, truncated } = await walked(root, { maxDirectories: 2 });
  expect([paths, truncated]).toEqual([['a/', 'b/', 'c', 'a/1'], true]);
  expect(await walked(root, { maxDirectories: 3 })).toMatchObject({ truncated: false });
});

test('keeps the response within its size', async () => {
  const root = await temporaryDirectory();
  const name = 'n'.repeat(240);
  const itemBytes = `file://${root}/${name}-000`.length + 3 + 64;
  const fitting = Math.floor((4 * 1024 * 1024) / itemBytes);
  execFileSync('sh', ['-c', `seq -f ${name}-%06g ${fitting + 1} | xargs touch`], { cwd: root });
  const { paths, truncated } = await walked(root);
  expect(paths.length).toBe(fitting);
  expect(truncated).toBe(true);
  expect(paths.at(-1)).toBe(`${name}-${String(fitting).padStart(6, '0')}`);
});

test('sorts a large directory as a whole and cuts it at the limit', async () => {
  const root = await temporaryDirectory();
  execFileSync('sh', ['-c', 'seq 12000 | xargs touch'], { cwd: root });
  await makeTree(root, { '0/inner': '' });
  const names = Array.from({ length: 12_000 }, (_, index) => String(index + 1)).sort();
  const all = await walked(root);
  expect(all.truncated).toBe(false);
  expect(all.paths).toEqual(['0/', ...names, '0/inner']);
  const cut = await walked(root, { maxEntries: 5_000 });
  expect(cut.truncated).toBe(true);
  expect(cut.paths).toEqual(['0/', ...names.slice(0, 4_999)]);
});

test('lists and enters names of any bytes', async () => {
  const root = await temporaryDirectory();
  await makeTree(root, { 'd\xfe/k': '', '\xff.txt': '', '\xc3\xa9': '', 'a b': '' });
  expect(await walked(root)).toEqual({
    paths: ['a%20b', 'd%FE/', '%C3%A9', '%FF.txt', 'd%FE/k'],
    errors: [],
    truncated: false,
  });
});

test('URIs below the root directory have one slash', async () => {
  const { entries } = await walk(nativePathOfBytes('/'), { ...EVERYTHING, maxDepth: 0 }, NEVER);
  expect(entries).toContainEqual({ uri: 'file:///proc', kind: 'directory' });
});

test('wraps a path that has no plain URI, and everything below it', async ({ skip }) => {
  const drive = nativePathOfBytes('/Q:');
  try {
    await mkdir(drive);
  } catch {
    skip('the root directory cannot be written');
  }
  try {
    await makeTree(drive, { x: '' });
    const { entries } = await walk(drive, EVERYTHING, NEVER);
    expect(entries).toEqual([{ uri: 'file:///%00/bad/path/L1E6L3g', kind: 'file' }]);
  } finally {
    execFileSync('rm', ['-r', drive]);
  }
});

test('lists an unreadable directory and reports an error', async () => {
  const root = await temporaryDirectory();
  const below = Array.from({ length: 16 }, () => 'n'.repeat(250));
  await makeTree(root, { [['x', ...below].join('/')]: null });
  const name = 'y'.repeat(250);
  await rename(`${root}/x`, `${root}/${name}`);
  const { paths, errors } = await walked(root);
  // So that the directory can be removed by its path.
  await rename(`${root}/${name}`, `${root}/x`);
  expect(paths).toHaveLength(17);
  expect(errors).toEqual([`${[name, ...below].join('/')}: Filename too long (os error 36)`]);
});

test('a root that is a file, or a link that is not followed, is empty', async () => {
  const root = await mixedTree();
  const nothing = { paths: [], errors: [], truncated: false };
  expect(await walked(childPath(root, 'z'))).toEqual(nothing);
  expect(await walked(childPath(root, 'a'))).toEqual(nothing);
  const followed = await walked(childPath(root, 'a'), { followDirectorySymlinks: true, maxDepth: 0 });
  expect(followed.paths).toEqual(['c/', 'f', 'up/']);
});

test.each([
  ['missing', 'notFound', 'No such file or directory (os error 2)'],
  ['nowhere', 'notFound', 'No such file or directory (os error 2)'],
  ['loop', 'failed', 'Symbolic link loop (os error 40)'],
  ['z/x', 'failed', 'Not a directory (os error 20)'],
])('the root %s is an error', async (name, kind, message) => {
  const root = await mixedTree();
  await expect(walked(childPath(root, name))).rejects.toMatchObject({ kind, message });
});

const ZERO = 'filesystem walk limits must be greater than zero';
const MAXIMUMS = 'filesystem walk limits exceed maximums: depth=64, directories=10000, entries=50000';
test.each([
  [{ maxDirectories: 0, maxEntries: 50_001 }, ZERO],
  [{ maxEntries: 0 }, ZERO],
  [{ maxDepth: 65 }, MAXIMUMS],
  [{ maxDirectories: 10_001 }, MAXIMUMS],
  [{ maxEntries: 50_001 }, MAXIMUMS],
])('rejects limits of %o', async (limits, message) => {
  const root = await temporaryDirectory();
  await expect(walked(root, limits)).rejects.toMatchObject({ kind: 'refused', message });
});

test('an abort ends the walk, also in the middle of a large directory', async () => {
  const root = await temporaryDirectory();
  execFileSync('sh', ['-c', 'seq 12000 | xargs touch'], { cwd: root });
  const abort = new AbortController();
  const walking = walk(root, EVERYTHING, abort.signal);
  setImmediate(() => abort.abort(new Error('not wanted')));
  await expect(walking).rejects.toThrow('not wanted');
});
