import {
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { LocalSide } from '../../../../src/cli/sync/local-side.ts';
import { RemoteSide } from '../../../../src/cli/sync/remote-side.ts';
import { ChangedError, type Content } from '../../../../src/cli/sync/side.ts';
import type { FileEntry } from '../../../../src/cli/sync/tree.ts';
import { Files } from '../../../../src/client/files/files.ts';
import { RemoteFileSystem } from '../../../../src/client/files/remote-file-system.ts';
import { nativePathOfText } from '../../../../src/files/native-path.ts';
import { FakeFileServer } from '../../client/fake-file-server.ts';

const folder = mkdtempSync(join(tmpdir(), 'exec-server-sync-'));
afterAll(() => rmSync(folder, { recursive: true }));
const { signal } = new AbortController();

async function drained(content: AsyncIterable<Uint8Array>): Promise<number> {
  let bytes = 0;
  for await (const block of content) bytes += block.length;
  return bytes;
}

function text(content: string): Content {
  const blocks = async function* () {
    yield Buffer.from(content);
  };
  return { size: content.length, blocks: blocks() };
}

describe('the local side', () => {
  const side = new LocalSide('here', nativePathOfText(folder), signal);
  beforeAll(() => side.realRoot());

  test('notices a file that changes while it is read, or has changed since it was listed', async () => {
    const path = join(folder, 'busy');
    writeFileSync(path, Buffer.alloc(3 * 1024 * 1024));
    const listed = (await side.stat('busy')) as FileEntry;
    expect(await drained(side.read('busy', listed))).toBe(listed.size);
    const reading = side.read('busy', listed);
    await reading.next();
    writeFileSync(path, Buffer.alloc(3 * 1024 * 1024, 1));
    utimesSync(path, 1, 1);
    await expect(drained(reading)).rejects.toThrow(ChangedError);
    await expect(drained(side.read('busy', listed))).rejects.toThrow(ChangedError);
    symlinkSync('busy', join(folder, 'to-busy'));
    await expect(drained(side.read('to-busy', listed))).rejects.toThrow(ChangedError);
  });

  test('keeps the exact millisecond of a time', async () => {
    for (const mtimeMs of [1, 999, 1_731_877_200_123, 1_731_877_200_999, 1_700_000_000_001]) {
      await side.replaceFile('timed', text('x'), { mode: 0o640, mtimeMs });
      expect(await side.stat('timed')).toEqual({ kind: 'file', size: 1, mtimeMs, mode: 0o640 });
      await side.setAttributes('timed', { mtimeMs: mtimeMs + 1 });
      expect(await side.stat('timed')).toMatchObject({ mtimeMs: mtimeMs + 1 });
    }
  });

  test('keeps the old file and leaves nothing when the content fails', async () => {
    await side.replaceFile('kept', text('old'), {});
    const failing = async function* () {
      yield Buffer.from('new');
      throw new ChangedError();
    };
    await expect(side.replaceFile('kept', { size: 3, blocks: failing() }, {})).rejects.toThrow(ChangedError);
    expect(readFileSync(join(folder, 'kept'), 'utf8')).toBe('old');
    expect(readdirSync(folder).filter((name) => name.includes('.tmp'))).toEqual([]);
  });

  test('writes nothing through a link to a directory', async () => {
    const outside = mkdtempSync(join(tmpdir(), 'exec-server-sync-outside-'));
    const before = statSync(outside).mode;
    symlinkSync(outside, join(folder, 'out'));
    const attempts = [
      () => side.replaceFile('out/file', text('x'), {}),
      () => side.makeDirectory('out/directory'),
      () => side.makeLink('out/link', '/etc/passwd'),
      () => side.setAttributes('out', { mode: 0o777 }),
      () => side.remove({ path: 'out/nothing', kind: 'file' }),
    ];
    for (const attempt of attempts) await expect(attempt()).rejects.toThrow();
    expect(readdirSync(outside)).toEqual([]);
    expect(statSync(outside).mode).toBe(before);
    rmSync(outside, { recursive: true });
  });
});

describe('the remote side', () => {
  const attributes = { kind: 'file', size: 1, mode: 0o644, modifiedAtMs: 1 };

  function sideOf(server: FakeFileServer): RemoteSide {
    const files = new Files({ fileSystem: new RemoteFileSystem(server), defaultDirectory: async () => null });
    return new RemoteSide('there', nativePathOfText('/root'), { files: files as never }, signal);
  }

  const listing = (...entries: object[]) => ({
    listings: [{ path: 'file:///root', attributes, entries }],
    unlisted: [],
  });

  test.each<[string, object]>([
    ['a name above the directory', listing({ ...attributes, name: '..' })],
    ['a name with a slash', listing({ ...attributes, name: 'a%2Fb' })],
    ['a name with plain slashes', listing({ ...attributes, name: '../../etc/passwd' })],
    ['an empty name', listing({ ...attributes, name: '' })],
    ['a name with NUL', listing({ ...attributes, name: 'a%00' })],
    [
      'a name twice',
      listing({ ...attributes, name: 'a' }, { ...attributes, kind: 'directory', name: '%61' }),
    ],
    ['a link without a target', listing({ ...attributes, kind: 'symlink', name: 'a' })],
    ['an endless size', listing({ ...attributes, size: 1e300, name: 'a' })],
    ['no listing', { listings: [], unlisted: ['file:///root'] }],
  ])('refuses %s from a server', async (_name, result) => {
    const server = new FakeFileServer(['fsAttributes']);
    server.answer('fs/list', result);
    await expect(sideOf(server).list([''])).rejects.toThrow(/invalid message from the server/);
  });

  test.each([{}, { path: 1 }, { path: 'root' }, { path: 'file://other/root' }])(
    'refuses %j as the real path from a server',
    async (result) => {
      const server = new FakeFileServer(['fsAttributes']);
      server.answer('fs/canonicalize', result);
      await expect(sideOf(server).realRoot()).rejects.toThrow(
        'invalid message from the server: the real path of a directory',
      );
    },
  );

  test('returns an error for a directory that a listing lacks', async () => {
    const server = new FakeFileServer(['fsAttributes']);
    server.answer('fs/list', { listings: [{ path: 'file:///etc', attributes, entries: [] }], unlisted: [] });
    expect((await sideOf(server).list(['']))[0]).toBeInstanceOf(Error);
  });

  test('stops at the size that was listed', async () => {
    const server = new FakeFileServer(['fsAttributes']);
    server.answer('fs/readFile', { dataBase64: Buffer.alloc(10).toString('base64') });
    const entry: FileEntry = { kind: 'file', size: 9, mtimeMs: 1, mode: 0o644 };
    await expect(drained(sideOf(server).read('a', entry))).rejects.toThrow(ChangedError);
  });
});
