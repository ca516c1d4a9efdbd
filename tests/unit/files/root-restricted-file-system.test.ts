import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { beforeEach, expect, test } from 'vitest';
import type { FileSystem, WalkOptions } from '../../../src/files/file-system.ts';
import { LOCAL_FILE_SYSTEM } from '../../../src/files/local/local-file-system.ts';
import type { NativePath } from '../../../src/files/native-path.ts';
import { restrictToRoot } from '../../../src/files/root-restricted-file-system.ts';
import { Scratch } from './local/scratch.ts';

const scratch = new Scratch();
const at = (name: string) => scratch.at(name);
let files: FileSystem;

const FOLLOW = { followSymlinks: true };
const SIGNAL = new AbortController().signal;
const WAITING = { signal: SIGNAL, onWait: () => {} };
const WALK: WalkOptions = {
  maxDepth: 9,
  maxDirectories: 99,
  maxEntries: 99,
  followDirectorySymlinks: true,
  pruneHiddenDirectories: false,
};

// The client is restricted to `root`. `secret` is next to it, and links lead there.
beforeEach(() => {
  mkdirSync(at('root/inner'), { recursive: true });
  mkdirSync(at('secret'));
  mkdirSync(at('root-sibling'));
  writeFileSync(at('root/inner/file'), 'inside');
  writeFileSync(at('secret/file'), 'outside');
  writeFileSync(at('secret/only-outside'), '');
  symlinkSync('../secret', at('root/way-out'));
  symlinkSync('../secret/file', at('root/file-out'));
  symlinkSync('../secret/new', at('root/dangling'));
  symlinkSync('inner', at('root/way-in'));
  files = restrictToRoot(LOCAL_FILE_SYSTEM, at('root'));
});

const write = (path: NativePath) => files.writeFile(path, Buffer.from('new'), FOLLOW, WAITING);
const makeTree = (path: NativePath) => files.createDirectory(path, { ...FOLLOW, recursive: true });
const makeOne = (path: NativePath) => files.createDirectory(path, { ...FOLLOW, recursive: false });
const removeTree = (path: NativePath) => files.remove(path, { ...FOLLOW, recursive: true, force: true });

async function read(path: NativePath): Promise<string> {
  const content = await files.readFile(path, FOLLOW);
  const buffer = Buffer.alloc(100);
  const length = await content.read(buffer);
  await content.close();
  return buffer.toString('utf8', 0, length);
}

const OPERATIONS: Readonly<Record<string, (path: NativePath) => Promise<unknown>>> = {
  readFile: read,
  writeFile: write,
  'createDirectory, recursive': makeTree,
  createDirectory: makeOne,
  getMetadata: (path) => files.getMetadata(path, FOLLOW),
  canonicalize: (path) => files.canonicalize(path),
  readDirectory: (path) => files.readDirectory(path),
  hash: (path) => files.hash(path, FOLLOW, SIGNAL),
  walk: (path) => files.walk(path, WALK, SIGNAL),
  list: (path) => files.list(path, FOLLOW),
  setAttributes: (path) => files.setAttributes(path, { mode: 0o700 }),
  createLink: (path) => files.createLink(path, 'inner', { replace: true }),
  'open to read': (path) => files.open(path, 'read'),
  'open to replace': (path) => files.open(path, 'replace'),
  'open to replace atomically': (path) => files.open(path, 'atomicReplace'),
  'rename from': (path) => files.rename(path, at('root/moved')),
  'rename to': (path) => files.rename(at('root/inner/file'), path),
  'copy from': (path) => files.copy(path, at('root/copied'), { recursive: true }),
  'copy to': (path) => files.copy(at('root/inner'), path, { recursive: true }),
};

/** Everything outside the root, which must not change. */
function outside() {
  return [
    readdirSync(at('.')).filter((name) => name !== 'root'),
    readdirSync(at('secret')),
    readFileSync(at('secret/file'), 'utf8'),
    readdirSync(at('root-sibling')),
  ];
}

const OUTSIDE = [['root-sibling', 'secret'], ['file', 'only-outside'], 'outside', []];

test.each(
  Object.keys(OPERATIONS).flatMap((operation) =>
    ['secret', 'secret/file', 'secret/new', 'root-sibling/x', '.', '/etc/passwd', '/'].map((path) => [
      operation,
      path,
    ]),
  ),
)('%s rejects %s, which is outside the root', async (operation, path) => {
  await expect(OPERATIONS[operation!]!(at(path!))).rejects.toMatchObject({ kind: 'refused' });
  expect(outside()).toEqual(OUTSIDE);
});

test.each(
  Object.keys(OPERATIONS).flatMap((operation) =>
    ['root/way-out/file', 'root/way-out/new', 'root/way-in/file', 'root/way-in/new/er'].map((path) => [
      operation,
      path,
    ]),
  ),
)('%s follows no link on the way to %s', async (operation, path) => {
  await expect(OPERATIONS[operation!]!(at(path!))).rejects.toThrow();
  expect(outside()).toEqual(OUTSIDE);
});

/** The others work on the link itself. */
const ENDS_IN_LINK = Object.keys(OPERATIONS).filter((name) => !/^(?:rename|list$)/.test(name));

test.each(
  ENDS_IN_LINK.flatMap((operation) =>
    ['root/way-out', 'root/file-out', 'root/dangling'].map((path) => [operation, path]),
  ),
)('%s follows no link at the end of %s', async (operation, path) => {
  await expect(OPERATIONS[operation!]!(at(path!))).rejects.toThrow();
  expect(outside()).toEqual(OUTSIDE);
});

test('files inside the root can be read and changed', async () => {
  expect(await read(at('root/inner/file'))).toBe('inside');
  await write(at('root/inner/other'));
  await makeTree(at('root/a/b/c'));
  await makeTree(at('root/a/b/c'));
  await makeOne(at('root/a/d'));
  await files.rename(at('root/inner/other'), at('root/a/b/c/moved'));
  expect(await files.canonicalize(at('root/a/b/c/moved'))).toBe(at('root/a/b/c/moved'));
  expect(await files.getMetadata(at('root'), FOLLOW)).toMatchObject({ isDirectory: true });
  const handle = await files.open(at('root/a/replaced'), 'replace');
  await handle.write(0, Buffer.from('blocks'));
  await handle.close();
  const reading = await files.open(at('root/a/replaced'), 'read');
  expect((await reading.read(0, 100)).toString()).toBe('blocks');
  await reading.close();
  await removeTree(at('root/inner'));
  expect(readdirSync(at('root')).sort()).toEqual(['a', 'dangling', 'file-out', 'way-in', 'way-out']);
  expect(readFileSync(at('root/a/b/c/moved'), 'utf8')).toBe('new');
});

test('lists a link without following it, and sets its own time', async () => {
  await files.setAttributes(at('root/way-out'), { modifiedAtMs: 1_234 });
  expect(await files.list(at('root/way-out'), FOLLOW)).toEqual({
    attributes: expect.objectContaining({ kind: 'symlink', modifiedAtMs: 1_234 }),
    entries: null,
  });
  await files.setAttributes(at('root/inner/file'), { mode: 0o640, modifiedAtMs: 5_001 });
  expect(await files.list(at('root/inner'), FOLLOW)).toMatchObject({
    attributes: { kind: 'directory' },
    entries: [{ name: 'file', kind: 'file', mode: 0o640, modifiedAtMs: 5_001, size: 6 }],
  });
  await expect(files.setAttributes(at('root'), { mode: 0o700 })).rejects.toMatchObject({ kind: 'refused' });
  expect(outside()).toEqual(OUTSIDE);
});

test('createDirectory fails where a file exists', async () => {
  await expect(makeTree(at('root/inner/file'))).rejects.toMatchObject({ kind: 'refused' });
  await expect(makeOne(at('root/inner'))).rejects.toThrow('File exists');
  await expect(makeOne(at('root/no/parent'))).rejects.toThrow('No such file');
});

test('links are listed as links, whatever their target', async () => {
  expect((await files.readDirectory(at('root'))).sort((a, b) => (a.name < b.name ? -1 : 1))).toEqual([
    { name: 'dangling', isDirectory: false, isFile: false },
    { name: 'file-out', isDirectory: false, isFile: false },
    { name: 'inner', isDirectory: true, isFile: false },
    { name: 'way-in', isDirectory: false, isFile: false },
    { name: 'way-out', isDirectory: false, isFile: false },
  ]);
});

test('a walk enters no link, even on request', async () => {
  const { entries, errors } = await files.walk(at('root'), WALK, SIGNAL);
  expect(entries.map(({ uri, kind }) => [uri.slice(`file://${at('root')}`.length), kind])).toEqual([
    ['/inner', 'directory'],
    ['/inner/file', 'file'],
  ]);
  expect(errors).toEqual([]);
});

test('links themselves can be renamed and removed, and their targets stay', async () => {
  await files.rename(at('root/way-out'), at('root/renamed'));
  expect(lstatSync(at('root/renamed')).isSymbolicLink()).toBe(true);
  for (const link of ['root/renamed', 'root/file-out', 'root/dangling']) await removeTree(at(link));
  expect(readdirSync(at('root')).sort()).toEqual(['inner', 'way-in']);
  expect(outside()).toEqual(OUTSIDE);
});

test('the root itself cannot be removed, renamed or created', async () => {
  for (const change of [removeTree, makeTree, makeOne, write]) {
    await expect(change(at('root'))).rejects.toMatchObject({ kind: 'refused' });
  }
  await expect(files.rename(at('root'), at('root/x'))).rejects.toMatchObject({ kind: 'refused' });
  rmSync(at('root'), { recursive: true });
  await expect(makeTree(at('root/a/b'))).rejects.toMatchObject({ kind: 'notFound' });
  expect(existsSync(at('root'))).toBe(false);
});

test('removing a missing path is an error only without force', async () => {
  const single = { ...FOLLOW, recursive: false };
  await files.remove(at('root/no/such'), { ...single, force: true });
  await expect(files.remove(at('root/no/such'), { ...single, force: false })).rejects.toMatchObject({
    kind: 'notFound',
  });
});

test('a link that replaces a directory during a write is not followed', async () => {
  let stop = false;
  const swap = async () => {
    while (!stop) {
      renameSync(at('root/inner'), at('root/aside'));
      symlinkSync('../secret', at('root/inner'));
      await new Promise((resolve) => setImmediate(resolve));
      rmSync(at('root/inner'));
      renameSync(at('root/aside'), at('root/inner'));
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  const swapping = swap();
  const outcomes = { done: 0, refused: 0 };
  for (let attempt = 0; attempt < 100; attempt++) {
    const file = at('root/inner/file');
    const attempts = [write(at(`root/inner/new-${attempt}`)), read(file), removeTree(at('root/inner/x'))];
    for (const outcome of await Promise.allSettled(attempts)) {
      outcomes[outcome.status === 'fulfilled' ? 'done' : 'refused']++;
      if (outcome.status === 'fulfilled') expect(outcome.value ?? '').not.toBe('outside');
    }
    const listed = await files.walk(at('root'), WALK, SIGNAL);
    expect(listed.entries.some(({ uri }) => uri.endsWith('only-outside'))).toBe(false);
  }
  stop = true;
  await swapping;
  expect(outside()).toEqual(OUTSIDE);
  expect(outcomes.done).toBeGreaterThan(0);
});

test('a path with dot segments is outside, whatever its start', async () => {
  const path = `${at('root')}/../secret/file` as NativePath;
  await expect(files.readFile(path, FOLLOW)).rejects.toThrow('path is not within');
  await expect(files.remove(path, { ...FOLLOW, recursive: false, force: false })).rejects.toThrow(
    'path is not within',
  );
  expect(existsSync(at('secret/file'))).toBe(true);
});
