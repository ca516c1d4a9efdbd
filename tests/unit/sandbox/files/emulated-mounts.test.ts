import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { FileSystem } from '../../../../src/files/file-system.ts';
import { LOCAL_FILE_SYSTEM } from '../../../../src/files/local/local-file-system.ts';
import { type NativePath, nativePathOfText } from '../../../../src/files/native-path.ts';
import { uriFromPath } from '../../../../src/files/path-uri.ts';
import { AbsentPaths } from '../../../../src/sandbox/files/inside/absent-paths.ts';
import { AddedDirectories } from '../../../../src/sandbox/files/inside/added-directories.ts';
import { emulateMounts } from '../../../../src/sandbox/files/inside/emulated-mounts.ts';
import { EXISTS, IS_A_DIRECTORY, NO_ENTRY, outcome, Scratch } from '../../files/local/scratch.ts';
import { FOLLOW, NO_FOLLOW, waitingForever } from './helper-fixture.ts';
import { sameAnswers } from './same-answers.ts';

const READ_ONLY = 'failed: Read-only file system (os error 30)';
const PROTECTED = expect.stringMatching(
  /^failed: Read-only file system \(os error 30\): \/.*\.git does not exist, and the sandbox protects its name/,
);
const BUSY = 'failed: Resource busy (os error 16)';
const WALK = {
  maxDepth: 8,
  maxDirectories: 100,
  maxEntries: 1_000,
  followDirectorySymlinks: false,
  pruneHiddenDirectories: false,
};

describe('emulated mounts for absent paths', () => {
  const scratch = new Scratch();
  const at = (name: string) => scratch.at(name);

  /** A workspace with an absent directory `.git` and an absent file `keep/secret`, and a link to it. */
  async function emulated(hidden: NativePath[] = []): Promise<FileSystem> {
    mkdirSync(at('ws/src'), { recursive: true });
    mkdirSync(at('ws/keep'));
    writeFileSync(at('ws/file'), 'content');
    symlinkSync('ws', at('link'));
    const absent = await AbsentPaths.of([
      { path: at('ws/.git'), kind: 'directory' },
      { path: at('ws/keep/secret'), kind: 'file' },
    ]);
    return emulateMounts(LOCAL_FILE_SYSTEM, { absent, hidden, added: await AddedDirectories.of([]) });
  }

  sameAnswers(scratch, async () => {
    mkdirSync(at('unrelated'));
    const absent = await AbsentPaths.of([{ path: at('unrelated/.git'), kind: 'directory' }]);
    return emulateMounts(LOCAL_FILE_SYSTEM, {
      absent,
      hidden: [],
      added: await AddedDirectories.of([]),
    });
  });

  const write = (files: FileSystem, path: string) =>
    outcome(files.writeFile(at(path), Buffer.from('x'), FOLLOW, waitingForever()));

  test.each([
    ['ws/.git', IS_A_DIRECTORY],
    ['ws/.git/config', READ_ONLY],
    ['ws/.git/hooks/x', READ_ONLY],
    ['link/.git/config', READ_ONLY],
    ['ws/src/../.git/config', READ_ONLY],
    ['ws/src/.git', 'done'],
    ['ws/.gitignore', 'done'],
    ['ws/keep/secret', READ_ONLY],
    ['ws/keep/secret/x', READ_ONLY],
    ['ws/keep/secrets', 'done'],
    ['ws/to-git', IS_A_DIRECTORY],
    ['ws/to-config', READ_ONLY],
    ['ws/over-there', READ_ONLY],
    ['ws/around', 'failed: Symbolic link loop (os error 40)'],
  ])('writing a file to %s: %s', async (path, expected) => {
    const files = await emulated();
    symlinkSync('.git', at('ws/to-git'));
    symlinkSync(at('link/.git/config'), at('ws/to-config'));
    symlinkSync('to-config', at('ws/over-there'));
    symlinkSync('around', at('ws/around'));
    expect(await write(files, path)).toBe(expected);
    for (const mode of ['replace', 'atomicReplace'] as const) {
      const opened = outcome(files.open(at(path), mode).then((file) => file.close()));
      expect(await opened).toBe(expected);
    }
    expect(existsSync(at('ws/.git'))).toBe(false);
    expect(existsSync(at('ws/keep/secret'))).toBe(false);
  });

  test.each([
    ['ws/.git', true, PROTECTED],
    ['ws/.git', false, EXISTS],
    ['link/.git', true, PROTECTED],
    ['link/.git', false, EXISTS],
    ['ws/.git/hooks', true, READ_ONLY],
    ['ws/.git/hooks', false, READ_ONLY],
    ['/ws/missing/../.git/hooks', true, READ_ONLY],
    ['/link/.git/../new', true, READ_ONLY],
    ['ws/keep/secret', true, EXISTS],
    ['ws/keep/secret/x', true, READ_ONLY],
    ['ws/src/.git', true, 'done'],
  ])('creating a directory at %s (recursive: %s): %s', async (path, recursive, expected) => {
    const files = await emulated();
    // Joining paths would resolve the dots.
    const spelled = path.startsWith('/') ? nativePathOfText(`${at('.')}${path}`) : at(path);
    expect(await outcome(files.createDirectory(spelled, { ...FOLLOW, recursive }))).toEqual(expected);
    expect(existsSync(at('ws/.git'))).toBe(false);
    expect(existsSync(at('ws/keep/secret'))).toBe(false);
  });

  test.each([
    ['ws/.git', true, BUSY],
    ['link/.git', false, BUSY],
    ['ws/.git/x', true, 'done'],
    ['ws/.git/x', false, NO_ENTRY],
    ['ws/file', false, 'done'],
  ])('removing %s (force: %s): %s', async (path, force, expected) => {
    const files = await emulated();
    expect(await outcome(files.remove(at(path), { ...FOLLOW, recursive: true, force }))).toBe(expected);
  });

  test('keeps an entry that another process created at an absent path', async () => {
    const files = await emulated();
    mkdirSync(at('ws/.git'));
    writeFileSync(at('ws/.git/config'), 'theirs');
    await files.remove(at('ws/.git/config'), { ...FOLLOW, recursive: true, force: true });
    expect(await write(files, 'ws/.git/config')).toBe(READ_ONLY);
    expect(await outcome(files.rename(at('ws/.git/config'), at('ws/stolen')))).toBe(NO_ENTRY);
    expect(readFileSync(at('ws/.git/config'), 'utf8')).toBe('theirs');
  });

  test.each([
    ['ws/.git', 'ws/x', BUSY],
    ['ws/.git/x', 'ws/x', NO_ENTRY],
    ['ws/src', 'ws/.git', BUSY],
    ['ws/src', 'link/.git', BUSY],
    ['ws/file', 'ws/.git/x', READ_ONLY],
    ['ws/src', 'ws/keep', BUSY],
    ['ws/file', 'ws/renamed', 'done'],
  ])('renaming %s to %s: %s', async (source, destination, expected) => {
    const files = await emulated();
    expect(await outcome(files.rename(at(source), at(destination)))).toBe(expected);
    expect(existsSync(at('ws/.git'))).toBe(false);
  });

  test.each([
    ['a file to the name', 'ws/file', 'ws/.git', IS_A_DIRECTORY],
    ['a file below it', 'ws/file', 'ws/.git/x', READ_ONLY],
    ['a tree to the name', 'tree', 'ws/.git', IS_A_DIRECTORY],
    ['a tree with the name in it', 'tree', 'ws', PROTECTED],
    ['the same through a link', 'tree', 'link', PROTECTED],
    ['a tree with a link to the place in its way', 'nested', 'ws/copy', PROTECTED],
    ['a tree with the other name in it', 'other', 'ws', READ_ONLY],
    ['a tree that has neither', 'plain', 'ws', 'done'],
    ['a tree to a new place', 'tree', 'ws/new', 'done'],
    ['a tree into itself', 'ws', 'ws/src', expect.stringContaining('to itself or one of its descendants')],
  ])('copies %s', async (_name, source, destination, expected) => {
    const files = await emulated();
    for (const name of ['tree/.git', 'nested/inner/.git', 'other/keep', 'plain/sub', 'ws/copy']) {
      mkdirSync(at(name), { recursive: true });
    }
    for (const name of [
      'tree/.git/config',
      'nested/inner/.git/config',
      'other/keep/secret',
      'plain/sub/file',
    ]) {
      writeFileSync(at(name), 'text');
    }
    symlinkSync(at('ws'), at('ws/copy/inner'));
    expect(await outcome(files.copy(at(source), at(destination), { recursive: true }))).toEqual(expected);
    expect(existsSync(at('ws/.git'))).toBe(false);
    expect(existsSync(at('ws/keep/secret'))).toBe(false);
    if (source === 'plain') expect(readFileSync(at('ws/sub/file'), 'utf8')).toBe('text');
    if (destination === 'ws/new') expect(readFileSync(at('ws/new/.git/config'), 'utf8')).toBe('text');
  });

  test('refuses to copy an empty directory with a protected name', async () => {
    const files = await emulated();
    mkdirSync(at('tree/.git'), { recursive: true });
    expect(await outcome(files.copy(at('tree'), at('ws'), { recursive: true }))).toEqual(PROTECTED);
    expect(existsSync(at('ws/.git'))).toBe(false);
  });

  test('reports the absent directory as existing', async () => {
    const files = await emulated();
    for (const path of [at('ws/.git'), at('link/.git')]) {
      expect(await files.getMetadata(path, FOLLOW)).toMatchObject({ isDirectory: true, isFile: false });
      expect(await files.canonicalize(path)).toBe(at('ws/.git'));
      expect(await files.readDirectory(path)).toEqual([]);
      expect(await files.walk(path, WALK, new AbortController().signal)).toEqual({
        entries: [],
        errors: [],
        truncated: false,
      });
    }
    expect(await outcome(files.getMetadata(at('ws/.git/x'), FOLLOW))).toBe(NO_ENTRY);
    expect(await outcome(files.getMetadata(at('ws/keep/secret'), FOLLOW))).toBe(NO_ENTRY);
  });

  test.each([FOLLOW, NO_FOLLOW])('lists it once (%j)', async (options) => {
    const files = await emulated();
    const names = async (name: string) =>
      (await files.readDirectory(at(name), options)).map(({ name: entry }) => entry).sort();
    expect(await names('ws')).toEqual(['.git', 'file', 'keep', 'src']);
    expect(await names('ws/src')).toEqual([]);
    mkdirSync(at('ws/.git'));
    expect(await names('ws')).toEqual(['.git', 'file', 'keep', 'src']);
  });

  test('lists it in a directory that is reached through a link', async () => {
    const files = await emulated();
    expect((await files.readDirectory(at('link'))).map(({ name }) => name)).toContain('.git');
  });

  test.each<[string, Partial<typeof WALK>, string[]]>([
    ['ws', {}, ['.git', 'file', 'keep', 'src', 'keep/x', 'src/y']],
    ['.', {}, ['ws', 'ws/.git', 'ws/file', 'ws/keep', 'ws/src', 'ws/keep/x', 'ws/src/y']],
    ['.', { maxDepth: 0 }, ['ws']],
    ['ws/src', {}, ['y']],
  ])('a walk of %s includes it (%j)', async (root, options, expected) => {
    const files = await emulated();
    writeFileSync(at('ws/keep/x'), '');
    writeFileSync(at('ws/src/y'), '');
    const { entries } = await files.walk(at(root), { ...WALK, ...options }, new AbortController().signal);
    expect(entries.map(({ uri }) => uri)).toEqual(expected.map((name) => uriFromPath(at(join(root, name)))));
  });

  test('a walk includes it in an empty directory', async () => {
    mkdirSync(at('empty'));
    const absent = await AbsentPaths.of([{ path: at('empty/.git'), kind: 'directory' }]);
    const files = emulateMounts(LOCAL_FILE_SYSTEM, {
      absent,
      hidden: [],
      added: await AddedDirectories.of([]),
    });
    for (const root of ['empty', '.']) {
      const { entries } = await files.walk(at(root), WALK, new AbortController().signal);
      expect(entries.at(-1)).toEqual({ uri: uriFromPath(at('empty/.git')), kind: 'directory' });
    }
  });

  test('reports hidden paths as missing', async () => {
    const files = await emulated([at('ws/src')]);
    writeFileSync(at('ws/src/inner'), 'x');
    const all = [
      files.readFile(at('ws/src/inner'), FOLLOW),
      files.writeFile(at('ws/src/inner'), Buffer.from(''), FOLLOW, waitingForever()),
      files.createDirectory(at('ws/src/new'), { ...FOLLOW, recursive: true }),
      files.getMetadata(at('ws/src'), FOLLOW),
      files.canonicalize(at('ws/src')),
      files.readDirectory(at('ws/src')),
      files.walk(at('ws/src'), WALK, new AbortController().signal),
      files.remove(at('ws/src'), { ...FOLLOW, recursive: true, force: false }),
      files.copy(at('ws/src/inner'), at('ws/new'), { recursive: false }),
      files.copy(at('ws/file'), at('ws/src/new'), { recursive: false }),
      files.rename(at('ws/src'), at('ws/new')),
      files.rename(at('ws/file'), at('ws/src/new')),
      files.open(at('ws/src/inner'), 'read'),
      files.open(at('ws/src/inner'), 'replace'),
    ];
    expect(await Promise.all(all.map(outcome))).toEqual(all.map(() => NO_ENTRY));
    await files.remove(at('ws/src'), { ...FOLLOW, recursive: true, force: true });
    expect(readdirSync(at('ws/src'))).toEqual(['inner']);
    expect((await files.readDirectory(at('ws'))).map(({ name }) => name)).not.toContain('src');
    const { entries } = await files.walk(at('ws'), WALK, new AbortController().signal);
    expect(entries.map(({ uri }) => uri).filter((uri) => uri.includes('/src'))).toEqual([]);
  });
});
