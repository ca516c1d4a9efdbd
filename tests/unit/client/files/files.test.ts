import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { afterAll, describe, expect, test } from 'vitest';
import type { ExecutorFileSystem, WalkResult } from '../../../../src/client/backend.ts';
import { ClientError, type ClientErrorKind } from '../../../../src/client/errors.ts';
import { Files } from '../../../../src/client/files/files.ts';
import {
  HASH_PATHS_MAX_LENGTH,
  HASHES_PER_CALL,
  WALK_MAX_DEPTH,
  WRITE_WHOLE_MAX_BYTES,
} from '../../../../src/client/limits.ts';
import { LocalEnvironment } from '../../../../src/environment/local-environment.ts';
import { Scratch } from '../../files/local/scratch.ts';
import { answered } from '../fake-file-server.ts';

const environment = new LocalEnvironment();
afterAll(() => environment.dispose());
const scratch = new Scratch();
const at = (name: string): string => scratch.at(name);

/** The files of this machine, with some operations replaced. */
function filesWith(operations: Partial<ExecutorFileSystem> = {}, cwd: string | null = null): Files {
  return new Files({
    fileSystem: { ...environment.fileSystem, ...operations },
    defaultDirectory: async () => cwd,
  });
}

const files = filesWith();
const refuse = (kind: ClientErrorKind, message: string) => async () => {
  throw new ClientError(kind, message);
};
const refuseWith = (error: ClientError) => async () => {
  throw error;
};
const unsupported = refuse('unsupported', 'the server cannot do that');

test('a relative path needs a default directory', async () => {
  writeFileSync(at('file'), 'x');
  const relative = filesWith({}, `file://${at('.')}`);
  expect(await relative.readText('file')).toBe('x');
  expect(await relative.readText('./dir/../file')).toBe('x');
  await expect(files.readText('file')).rejects.toMatchObject({
    kind: 'invalidInput',
    message: expect.stringContaining("cannot read file: 'file' is a relative path"),
  });
});

test.each<[string, number, ClientErrorKind]>([
  ['Operation not permitted (os error 1)', -32600, 'permissionDenied'],
  ['Permission denied (os error 13)', -32600, 'permissionDenied'],
  ['Read-only file system (os error 30)', -32603, 'permissionDenied'],
  ['the token does not allow this', -32003, 'permissionDenied'],
  ['File exists (os error 17)', -32603, 'exists'],
  ['Not a directory (os error 20)', -32603, 'notDirectory'],
  ['Is a directory (os error 21)', -32603, 'isDirectory'],
  ['No space left on device (os error 28)', -32603, 'server'],
  ['a text with (os error 13) inside', -32603, 'server'],
])('the error %s of code %d has the kind %s', async (message, code, kind) => {
  const failing = filesWith({ writeFile: refuseWith(answered(code, message)) });
  const error = await failing.write(at('file'), 'x').catch((thrown: ClientError) => thrown);
  expect(error).toMatchObject({ kind, code });
  expect((error as ClientError).message).toContain(`cannot write ${at('file')}: ${message}`);
});

describe('write', () => {
  test('chooses the way by size, form and option', async () => {
    const used: string[] = [];
    const watched = filesWith({
      writeFile: async () => void used.push('whole'),
      replaceFile: async (_path, _content, options) => void used.push(options?.atomic ? 'atomic' : 'blocks'),
    });
    await watched.write('/x', 'text');
    await watched.write('/x', new Uint8Array(WRITE_WHOLE_MAX_BYTES));
    await watched.write('/x', new Uint8Array(WRITE_WHOLE_MAX_BYTES + 1));
    await watched.write('/x', [new Uint8Array(1)]);
    await watched.write('/x', 'text', { atomic: true });
    await watched.write('/x', [new Uint8Array(1)], { atomic: false });
    expect(used).toEqual(['whole', 'whole', 'atomic', 'atomic', 'atomic', 'blocks']);
  });

  test('writes a stream in place where the server cannot replace atomically', async () => {
    const old = filesWith({
      replaceFile: async (path, content, options) =>
        options?.atomic === false
          ? environment.fileSystem.replaceFile(path, content, options)
          : unsupported(),
    });
    await old.write(at('new/file'), [Buffer.from('a'), Buffer.from('b')]);
    expect(readFileSync(at('new/file'), 'utf8')).toBe('ab');
    await expect(old.write(at('file'), 'x', { atomic: true })).rejects.toMatchObject({ kind: 'unsupported' });
  });

  test('keeps the inode unless it is atomic', async () => {
    await files.write(at('file'), 'one');
    const { ino } = statSync(at('file'));
    await files.write(at('file'), 'two');
    expect(statSync(at('file')).ino).toBe(ino);
    await files.write(at('file'), 'three', { atomic: true });
    expect(statSync(at('file')).ino).not.toBe(ino);
    expect(readdirSync(at('.'))).toEqual(['file']);
  });
});

test('a stream can be left early and read again', async () => {
  writeFileSync(at('file'), Buffer.alloc(3 * 1024 * 1024));
  for (let round = 0; round < 3; round++) {
    for await (const block of files.readStream(at('file'))) {
      expect(block).toHaveLength(1024 * 1024);
      break;
    }
  }
});

test.each([
  ['another file system', refuseWith(answered(-32603, 'Cross-device link (os error 18)'))],
  ['a server that cannot rename', unsupported],
])('a move to %s copies and removes', async (_name, rename) => {
  mkdirSync(at('dir'));
  writeFileSync(at('dir/file'), 'x');
  await filesWith({ rename }).move(at('dir'), at('moved'));
  expect(readdirSync(at('.'))).toEqual(['moved']);
  expect(readFileSync(at('moved/file'), 'utf8')).toBe('x');
});

test('hashes more files than one request may have', async () => {
  const calls: number[] = [];
  const counting = filesWith({
    hash: async (paths) => {
      calls.push(paths.length);
      return paths.map(() => ({ sha256: 'x', size: 1 }));
    },
  });
  const hashes = await counting.hashAll(
    Array.from({ length: HASHES_PER_CALL + 1 }, (_, index) => `/f${index}`),
  );
  expect(calls).toEqual([HASHES_PER_CALL, 1]);
  expect(hashes.at(-1)).toEqual({ path: `/f${HASHES_PER_CALL}`, sha256: 'x', size: 1 });
  calls.length = 0;
  const long = `/${'x'.repeat(HASH_PATHS_MAX_LENGTH / 2 - 100)}`;
  expect(await counting.hashAll([long, long, long])).toHaveLength(3);
  expect(calls).toEqual([2, 1]);
});

describe('walk', () => {
  async function walked(from: Files, options = {}): Promise<string[]> {
    const found: string[] = [];
    for await (const { path } of from.walk(at('.'), options)) found.push(path.slice(at('.').length + 1));
    return found;
  }

  /** A server that returns at most so many entries per request. */
  function limitedTo(maxEntries: number): Files {
    const walk: ExecutorFileSystem['walk'] = (path, options, call) =>
      environment.fileSystem.walk(path, { ...options, maxEntries }, call);
    return filesWith({ walk });
  }

  test('reads a tree in parts where a server limits what one request returns', async () => {
    for (const name of ['a/1', 'a/2', 'b/1/2', 'b/.hidden/x']) mkdirSync(at(name), { recursive: true });
    const all = (await walked(files)).sort();
    expect(all).toEqual(['a', 'a/1', 'a/2', 'b', 'b/.hidden', 'b/.hidden/x', 'b/1', 'b/1/2']);
    const parts = await walked(limitedTo(4));
    expect([...parts].sort()).toEqual(all);
    expect(parts.indexOf('b')).toBeLessThan(parts.indexOf('b/1/2'));
    expect((await walked(limitedTo(4), { hidden: false })).sort()).toEqual(
      all.filter((name) => name !== 'b/.hidden/x'),
    );
    expect((await walked(limitedTo(4), { maxDepth: 2 })).sort()).toEqual(
      all.filter((name) => name.split('/').length <= 2),
    );
    await expect(walked(limitedTo(1))).rejects.toMatchObject({
      kind: 'invalidInput',
      message: expect.stringContaining('more entries than a server lists'),
    });
    await expect(walked(limitedTo(4), { followSymlinks: true })).rejects.toMatchObject({
      message: expect.stringContaining('too large to follow links'),
    });
  });

  test('goes deeper than one request may', async () => {
    const deep = Array.from({ length: WALK_MAX_DEPTH + 5 }, () => 'd').join('/');
    mkdirSync(at(deep), { recursive: true });
    expect(await walked(files)).toHaveLength(WALK_MAX_DEPTH + 5);
    expect(await walked(files, { maxDepth: WALK_MAX_DEPTH + 2 })).toHaveLength(WALK_MAX_DEPTH + 2);
  });

  test('fails for a directory that cannot be read, or reports it', async () => {
    const partial: WalkResult = {
      entries: [{ path: `file://${at('dir')}`, kind: 'directory' }],
      errors: [{ path: `file://${at('dir')}`, message: 'Permission denied (os error 13)' }],
      truncated: false,
    };
    const failing = filesWith({ walk: async () => partial });
    await expect(walked(failing)).rejects.toMatchObject({
      kind: 'permissionDenied',
      message: expect.stringContaining(`cannot list ${at('dir')}: Permission denied`),
    });
    const errors: ClientError[] = [];
    expect(await walked(failing, { onError: (error: ClientError) => errors.push(error) })).toEqual(['dir']);
    expect(errors).toMatchObject([{ kind: 'permissionDenied' }]);
  });
});
