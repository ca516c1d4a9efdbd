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

// `room` is where the client may be; `secret` lies beside it, and links lead there.
beforeEach(() => {
  mkdirSync(at('room/inner'), { recursive: true });
  mkdirSync(at('secret'));
  mkdirSync(at('room-next-door'));
  writeFileSync(at('room/inner/file'), 'inside');
  writeFileSync(at('secret/file'), 'outside');
  writeFileSync(at('secret/only-outside'), '');
  symlinkSync('../secret', at('room/way-out'));
  symlinkSync('../secret/file', at('room/file-out'));
  symlinkSync('../secret/new', at('room/dangling'));
  symlinkSync('inner', at('room/way-in'));
  files = restrictToRoot(LOCAL_FILE_SYSTEM, at('room'));
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
  walk: (path) => files.walk(path, WALK, SIGNAL),
  'open to read': (path) => files.open(path, 'read'),
  'open to replace': (path) => files.open(path, 'replace'),
  'open to replace atomically': (path) => files.open(path, 'atomicReplace'),
  'rename from': (path) => files.rename(path, at('room/moved')),
  'rename to': (path) => files.rename(at('room/inner/file'), path),
  'copy from': (path) => files.copy(path, at('room/copied'), { recursive: true }),
  'copy to': (path) => files.copy(at('room/inner'), path, { recursive: true }),
};

/** Everything outside of the room, as it must stay. */
function outside() {
  return [
    readdirSync(at('.')).filter((name) => name !== 'room'),
    readdirSync(at('secret')),
    readFileSync(at('secret/file'), 'utf8'),
    readdirSync(at('room-next-door')),
  ];
}

const OUTSIDE = [['room-next-door', 'secret'], ['file', 'only-outside'], 'outside', []];

test.each(
  Object.keys(OPERATIONS).flatMap((operation) =>
    ['secret', 'secret/file', 'secret/new', 'room-next-door/x', '.', '/etc/passwd', '/'].map((path) => [
      operation,
      path,
    ]),
  ),
)('%s refuses %s, which is not within', async (operation, path) => {
  await expect(OPERATIONS[operation!]!(at(path!))).rejects.toMatchObject({ kind: 'refused' });
  expect(outside()).toEqual(OUTSIDE);
});

test.each(
  Object.keys(OPERATIONS).flatMap((operation) =>
    ['room/way-out/file', 'room/way-out/new', 'room/way-in/file', 'room/way-in/new/er'].map((path) => [
      operation,
      path,
    ]),
  ),
)('%s follows no link on the way to %s', async (operation, path) => {
  await expect(OPERATIONS[operation!]!(at(path!))).rejects.toThrow();
  expect(outside()).toEqual(OUTSIDE);
});

const ENDS_IN_LINK = Object.keys(OPERATIONS).filter((name) => !name.startsWith('rename'));

test.each(
  ENDS_IN_LINK.flatMap((operation) =>
    ['room/way-out', 'room/file-out', 'room/dangling'].map((path) => [operation, path]),
  ),
)('%s follows no link at the end of %s', async (operation, path) => {
  await expect(OPERATIONS[operation!]!(at(path!))).rejects.toThrow();
  expect(outside()).toEqual(OUTSIDE);
});

test('what is inside can be read and changed', async () => {
  expect(await read(at('room/inner/file'))).toBe('inside');
  await write(at('room/inner/other'));
  await makeTree(at('room/a/b/c'));
  await makeTree(at('room/a/b/c'));
  await makeOne(at('room/a/d'));
  await files.rename(at('room/inner/other'), at('room/a/b/c/moved'));
  expect(await files.canonicalize(at('room/a/b/c/moved'))).toBe(at('room/a/b/c/moved'));
  expect(await files.getMetadata(at('room'), FOLLOW)).toMatchObject({ isDirectory: true });
  const handle = await files.open(at('room/a/replaced'), 'replace');
  await handle.write(0, Buffer.from('blocks'));
  await handle.close();
  const reading = await files.open(at('room/a/replaced'), 'read');
  expect((await reading.read(0, 100)).toString()).toBe('blocks');
  await reading.close();
  await removeTree(at('room/inner'));
  expect(readdirSync(at('room')).sort()).toEqual(['a', 'dangling', 'file-out', 'way-in', 'way-out']);
  expect(readFileSync(at('room/a/b/c/moved'), 'utf8')).toBe('new');
});

test('a directory is made where a file is only with an error', async () => {
  await expect(makeTree(at('room/inner/file'))).rejects.toMatchObject({ kind: 'refused' });
  await expect(makeOne(at('room/inner'))).rejects.toThrow('File exists');
  await expect(makeOne(at('room/no/parent'))).rejects.toThrow('No such file');
});

test('links are listed as what they are, whatever they lead to', async () => {
  expect((await files.readDirectory(at('room'))).sort((a, b) => (a.name < b.name ? -1 : 1))).toEqual([
    { name: 'dangling', isDirectory: false, isFile: false },
    { name: 'file-out', isDirectory: false, isFile: false },
    { name: 'inner', isDirectory: true, isFile: false },
    { name: 'way-in', isDirectory: false, isFile: false },
    { name: 'way-out', isDirectory: false, isFile: false },
  ]);
});

test('a walk enters no link, even when it is asked to', async () => {
  const { entries, errors } = await files.walk(at('room'), WALK, SIGNAL);
  expect(entries.map(({ uri, kind }) => [uri.slice(`file://${at('room')}`.length), kind])).toEqual([
    ['/inner', 'directory'],
    ['/inner/file', 'file'],
  ]);
  expect(errors).toEqual([]);
});

test('links themselves can be renamed and removed, and what they lead to stays', async () => {
  await files.rename(at('room/way-out'), at('room/renamed'));
  expect(lstatSync(at('room/renamed')).isSymbolicLink()).toBe(true);
  for (const link of ['room/renamed', 'room/file-out', 'room/dangling']) await removeTree(at(link));
  expect(readdirSync(at('room')).sort()).toEqual(['inner', 'way-in']);
  expect(outside()).toEqual(OUTSIDE);
});

test('the room itself stays, and comes back for nobody', async () => {
  for (const change of [removeTree, makeTree, makeOne, write]) {
    await expect(change(at('room'))).rejects.toMatchObject({ kind: 'refused' });
  }
  await expect(files.rename(at('room'), at('room/x'))).rejects.toMatchObject({ kind: 'refused' });
  rmSync(at('room'), { recursive: true });
  await expect(makeTree(at('room/a/b'))).rejects.toMatchObject({ kind: 'notFound' });
  expect(existsSync(at('room'))).toBe(false);
});

test('removing what is not there is an error only without force', async () => {
  const single = { ...FOLLOW, recursive: false };
  await files.remove(at('room/no/such'), { ...single, force: true });
  await expect(files.remove(at('room/no/such'), { ...single, force: false })).rejects.toMatchObject({
    kind: 'notFound',
  });
});

test('a link that takes the place of a directory while files are written there is not followed', async () => {
  let stop = false;
  const swap = async () => {
    while (!stop) {
      renameSync(at('room/inner'), at('room/aside'));
      symlinkSync('../secret', at('room/inner'));
      await new Promise((resolve) => setImmediate(resolve));
      rmSync(at('room/inner'));
      renameSync(at('room/aside'), at('room/inner'));
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  const swapping = swap();
  const outcomes = { done: 0, refused: 0 };
  for (let attempt = 0; attempt < 100; attempt++) {
    const file = at('room/inner/file');
    const attempts = [write(at(`room/inner/new-${attempt}`)), read(file), removeTree(at('room/inner/x'))];
    for (const outcome of await Promise.allSettled(attempts)) {
      outcomes[outcome.status === 'fulfilled' ? 'done' : 'refused']++;
      if (outcome.status === 'fulfilled') expect(outcome.value ?? '').not.toBe('outside');
    }
    const listed = await files.walk(at('room'), WALK, SIGNAL);
    expect(listed.entries.some(({ uri }) => uri.endsWith('only-outside'))).toBe(false);
  }
  stop = true;
  await swapping;
  expect(outside()).toEqual(OUTSIDE);
  expect(outcomes.done).toBeGreaterThan(0);
});

test('a path that leaves by dots is outside, however it begins', async () => {
  const path = `${at('room')}/../secret/file` as NativePath;
  await expect(files.readFile(path, FOLLOW)).rejects.toThrow('path is not within');
  await expect(files.remove(path, { ...FOLLOW, recursive: false, force: false })).rejects.toThrow(
    'path is not within',
  );
  expect(existsSync(at('secret/file'))).toBe(true);
});
