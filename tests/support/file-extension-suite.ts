import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { describe, expect, test } from 'vitest';
import type { FileChange, FileChanges } from '../../src/client/backend.ts';
import { type FileFixture, NOT_FOUND } from './file-fixture.ts';

/** Tests of a file system beyond the basic protocol; without `extensions`, of the errors that it reports instead. */
export function fileExtensionSuite(fixture: FileFixture, extensions: boolean): void {
  const { at, uri, write, read, populate } = fixture;

  describe('rename', () => {
    test('replaces an existing file', async () => {
      populate();
      const renaming = fixture.files.rename(uri('dir/inner'), uri('file'));
      if (!extensions) {
        await expect(renaming).rejects.toMatchObject({ kind: 'unsupported' });
        return;
      }
      await renaming;
      expect(read('file')).toBe('deep');
      expect(existsSync(at('dir/inner'))).toBe(false);
      await expect(fixture.files.rename(uri('missing'), uri('x'))).rejects.toMatchObject(NOT_FOUND);
    });
  });

  describe('attributes', () => {
    test('lists what is at paths and below, without following links', async () => {
      populate();
      chmodSync(at('file'), 0o640);
      utimesSync(at('file'), 1, 1.25);
      writeFileSync(Buffer.concat([Buffer.from(at('dir/')), Buffer.of(0x61, 0xff, 0x0a)]), 'odd');
      const listing = fixture.files.list([uri('.'), uri('to-nothing'), uri('missing')], { recursive: true });
      if (!extensions) {
        await expect(listing).rejects.toMatchObject({ kind: 'unsupported' });
        return;
      }
      const { listings, unlisted } = await listing;
      const entries = Object.fromEntries(
        listings.flatMap(({ path, entries = [] }) =>
          entries.map(({ name, ...attributes }) => [`${path.slice(uri('').length)}/${name}`, attributes]),
        ),
      );
      expect(entries).toMatchObject({
        '/file': { kind: 'file', size: 7, mode: 0o640, modifiedAtMs: 1_250 },
        '/dir': { kind: 'directory' },
        '/to-file': { kind: 'symlink', target: 'file' },
        '/to-dir': { kind: 'symlink', target: 'dir' },
        '/to-nothing': { kind: 'symlink', target: 'nowhere' },
        '/dir/inner': { kind: 'file', size: 4 },
        '/dir/a%FF%0A': { kind: 'file', size: 3 },
      });
      expect(Object.keys(entries)).toHaveLength(7);
      expect(listings.map(({ attributes, error }) => attributes?.kind ?? error?.code)).toEqual([
        'directory',
        'symlink',
        -32004,
        'directory',
      ]);
      expect(unlisted).toEqual([]);
    });

    test.runIf(extensions)('sets modes and times without following a link', async () => {
      populate();
      const before = statSync(at('file')).mode;
      await fixture.files.setAttributes(uri('dir'), { mode: 0o710, modifiedAtMs: 86_400_123 });
      await fixture.files.setAttributes(uri('to-file'), { modifiedAtMs: 5_000 });
      await expect(fixture.files.setAttributes(uri('to-file'), { mode: 0o600 })).rejects.toMatchObject({
        kind: 'invalidInput',
      });
      await expect(fixture.files.setAttributes(uri('missing'), { mode: 0o600 })).rejects.toMatchObject(
        NOT_FOUND,
      );
      expect(statSync(at('dir')).mode & 0o7777).toBe(0o710);
      expect(Math.floor(statSync(at('dir')).mtimeMs)).toBe(86_400_123);
      expect(lstatSync(at('to-file')).mtimeMs).toBe(5_000);
      expect(statSync(at('file')).mode).toBe(before);
    });

    test.runIf(extensions)('creates links, and replaces files and links by them', async () => {
      populate();
      await fixture.files.createLink(uri('new'), 'a%20b/..');
      await expect(fixture.files.createLink(uri('file'), 'x')).rejects.toMatchObject({ kind: 'exists' });
      await fixture.files.createLink(uri('file'), '/absolute', { replace: true });
      await fixture.files.createLink(uri('to-dir'), 'file', { replace: true });
      await expect(fixture.files.createLink(uri('dir'), 'x', { replace: true })).rejects.toThrow();
      expect(['new', 'file', 'to-dir'].map((name) => readlinkSync(at(name)))).toEqual([
        'a b/..',
        '/absolute',
        'file',
      ]);
      expect(readdirSync(at('.')).sort()).toEqual(['dir', 'file', 'new', 'to-dir', 'to-file', 'to-nothing']);
    });

    test.runIf(extensions)('gives a replacement its mode and time, and hides it until then', async () => {
      write('file', 'old');
      chmodSync(at('file'), 0o666);
      const attributes = { mode: 0o440, modifiedAtMs: 1_001 };
      const modes: number[] = [];
      const content = (async function* () {
        for (const name of readdirSync(at('.')).filter((name) => name !== 'file')) {
          modes.push(statSync(at(name)).mode & 0o777);
        }
        yield Buffer.from('new');
      })();
      await fixture.files.replaceFile(uri('file'), content, { attributes });
      await fixture.files.replaceFile(uri('whole'), [Buffer.from('all')], { attributes });
      expect(modes).toEqual([0o600]);
      for (const name of ['file', 'whole']) {
        expect([statSync(at(name)).mode & 0o777, Math.floor(statSync(at(name)).mtimeMs)]).toEqual([
          0o440, 1_001,
        ]);
      }
      expect([read('file'), read('whole')]).toEqual(['new', 'all']);
    });

    test.runIf(extensions)('continues a replacement that failed, by its key', async () => {
      const options = { attributes: { mode: 0o644 }, resumeKey: 'a'.repeat(32) };
      const broken = (async function* () {
        yield Buffer.alloc(1_100_000, 'x');
        throw new Error('the source broke');
      })();
      await expect(fixture.files.replaceFile(uri('file'), broken, options)).rejects.toThrow(
        'the source broke',
      );
      const [part, ...rest] = readdirSync(at('.'));
      expect([part, rest]).toEqual([`.file.exec-server-${'a'.repeat(32)}.part`, []]);
      expect(statSync(at(part!)).mode & 0o777).toBe(0o600);
      const parts: unknown[] = [];
      await fixture.files.replaceFile(
        uri('file'),
        async (part) => {
          parts.push(part);
          return { offset: part!.size, content: [Buffer.from('end')] };
        },
        options,
      );
      expect(parts).toEqual([{ path: uri(part!), size: 1024 * 1024 }]);
      expect(read('file')).toBe(`${'x'.repeat(1024 * 1024)}end`);
      expect(readdirSync(at('.'))).toEqual(['file']);
    });

    test.runIf(extensions)('replaces a file only by content with the expected hash', async () => {
      write('file', 'old');
      const content = Buffer.alloc(2_500_000, 'content ');
      const options = { attributes: { mode: 0o644 }, resumeKey: 'c'.repeat(32), compareHash: true };
      const replace = (expected: Uint8Array) =>
        fixture.files.replaceFile(
          uri('file'),
          async () => ({
            offset: 0,
            content: [content],
            sha256: () => createHash('sha256').update(expected).digest('hex'),
          }),
          options,
        );
      await expect(replace(Buffer.from('other'))).rejects.toMatchObject({ kind: 'invalidData' });
      expect(read('file')).toBe('old');
      for (const name of readdirSync(at('.'))) if (name !== 'file') rmSync(at(name));
      await replace(content);
      expect(read('file')).toBe(content.toString());
    });

    test.runIf(extensions)('does not write to a file of another kind under the name of a part', async () => {
      write('secret', 'old');
      symlinkSync('secret', at(`.file.exec-server-${'b'.repeat(32)}.part`));
      const options = { attributes: { mode: 0o644 }, resumeKey: 'b'.repeat(32) };
      await fixture.files.replaceFile(
        uri('file'),
        async (part) => ({ offset: part === null ? 0 : 100, content: [Buffer.from('new')] }),
        options,
      );
      expect([read('file'), read('secret')]).toEqual(['new', 'old']);
    });
  });

  describe('hash', () => {
    test('returns the SHA-256 or the error of each file, in order', async () => {
      populate();
      const large = Buffer.alloc(3_000_000, 'large ');
      write('large', large);
      write('empty', '');
      const names = ['large', 'to-file', 'missing', 'dir', 'empty', 'to-nothing'];
      const hashing = fixture.files.hash(names.map((name) => uri(name)));
      if (!extensions) {
        await expect(hashing).rejects.toMatchObject({ kind: 'unsupported' });
        return;
      }
      expect(await hashing).toEqual([
        { sha256: sha256(large), size: 3_000_000 },
        { sha256: sha256('content'), size: 7 },
        { error: expect.objectContaining(NOT_FOUND) },
        { error: expect.objectContaining({ kind: 'invalidInput', code: -32600 }) },
        { sha256: sha256(''), size: 0 },
        { error: expect.objectContaining(NOT_FOUND) },
      ]);
      const [linked] = await fixture.files.hash([uri('to-file')], { followSymlinks: false });
      expect(linked).toMatchObject({ error: { name: 'ClientError' } });
      expect(await fixture.files.hash([])).toEqual([]);
      const tooMany = fixture.files.hash(Array<string>(1_001).fill(uri('file')));
      await expect(tooMany).rejects.toMatchObject({ kind: 'invalidInput', code: -32602 });
    });

    test.runIf(extensions)('stops when its time is up', async () => {
      // A hole of 4 TiB takes no space and an hour to hash.
      execFileSync('truncate', ['-s', '4T', at('hole')]);
      write('file', 'x');
      // The first use may have to connect.
      await fixture.files.hash([uri('file')]);
      const [hole] = await fixture.files.hash([uri('hole')], { timeoutMs: 50 });
      expect(hole).toMatchObject({
        error: { message: expect.stringMatching(/^the file was not hashed within \d+ ms$/) },
      });
      // The slots are free again.
      expect(await fixture.files.hash([uri('file'), uri('file'), uri('file')])).toHaveLength(3);
    });
  });

  describe('search', () => {
    test('finds lines', async () => {
      populate();
      write('dir/more', 'one\ntwo deep\n');
      const searching = fixture.files.search(uri('.'), 'd(e+)p', { exclude: ['inner'] });
      if (!extensions) {
        await expect(searching).rejects.toMatchObject({ kind: 'unsupported' });
        return;
      }
      expect(await searching).toMatchObject({
        matches: [{ path: uri('dir/more'), line: 2, column: 5, text: 'two deep' }],
        truncated: null,
      });
      await expect(fixture.files.search(uri('.'), '(')).rejects.toMatchObject({
        kind: 'invalidInput',
        code: -32600,
      });
      await expect(fixture.files.search(uri('missing'), 'x')).rejects.toMatchObject(NOT_FOUND);
      const negative = fixture.files.search(uri('.'), 'x', { maxResults: -1 });
      await expect(negative).rejects.toMatchObject({ kind: 'invalidInput', code: -32602 });
    });
  });

  describe('watch', () => {
    test('reports changes until it is closed', async () => {
      mkdirSync(at('dir'));
      const watching = fixture.files.watch(uri('dir'), { debounceMs: 1 });
      if (!extensions) {
        await expect(watching).rejects.toMatchObject({ kind: 'unsupported' });
        return;
      }
      const watch = await watching;
      write('dir/new', 'x');
      const changes = watch[Symbol.asyncIterator]();
      const seen: FileChange[] = [];
      while (!seen.some(({ path, kind }) => path === uri('dir/new') && kind === 'created')) {
        const { value } = await changes.next();
        seen.push(...(value as FileChanges).changes);
      }
      await watch.close();
      expect(await changes.next()).toEqual({ done: true, value: undefined });
    });

    test('fails for a missing path', async () => {
      const expected = extensions ? NOT_FOUND : { kind: 'unsupported' };
      await expect(fixture.files.watch(uri('missing'))).rejects.toMatchObject(expected);
    });

    test.runIf(extensions)('ends with the loop and frees its slot', async () => {
      for (let round = 0; round < 40; round++) {
        const watch = await fixture.files.watch(uri('.'), { debounceMs: 1 });
        write(`file-${round}`);
        for await (const { changes } of watch) if (changes.length > 0) break;
      }
    });
  });

  describe('replaceFile', () => {
    const content = async function* (...parts: (string | Error)[]) {
      for (const part of parts) {
        if (part instanceof Error) throw part;
        yield Buffer.from(part);
      }
    };

    test('replaces the old file by a new one', async () => {
      write('file', 'old');
      symlinkSync('file', at('link'));
      const replacing = fixture.files.replaceFile(uri('link'), content('n', 'ew'));
      if (!extensions) {
        await expect(replacing).rejects.toMatchObject({ kind: 'unsupported' });
        expect(read('file')).toBe('old');
        return;
      }
      await replacing;
      expect(read('file')).toBe('new');
      expect(lstatSync(at('link')).isSymbolicLink()).toBe(true);
      await fixture.files.replaceFile(uri('another'), []);
      expect(read('another')).toBe('');
      expect(leftovers()).toEqual(['another', 'file', 'link']);
    });

    test.runIf(extensions)('leaves the old file alone when the source of the content fails', async () => {
      write('file', 'old');
      const failing = fixture.files.replaceFile(uri('file'), content('half', new Error('the source broke')));
      await expect(failing).rejects.toThrow('the source broke');
      expect(read('file')).toBe('old');
      expect(leftovers()).toEqual(['file']);
    });

    test.runIf(extensions)('can be aborted while its source is idle', async () => {
      write('file', 'old');
      const giveUp = new AbortController();
      let left = false;
      const source: AsyncIterator<Uint8Array> = {
        next: () => {
          setImmediate(() => giveUp.abort());
          return new Promise(() => {});
        },
        return: async () => {
          left = true;
          return { done: true, value: undefined };
        },
      };
      const silent = { [Symbol.asyncIterator]: () => source };
      const replacing = fixture.files.replaceFile(uri('file'), silent, { signal: giveUp.signal });
      await expect(replacing).rejects.toMatchObject({ kind: 'aborted' });
      expect(left).toBe(true);
      expect(read('file')).toBe('old');
    });

    test('with a condition leaves a file alone that has changed meanwhile', async () => {
      write('file', 'old');
      const condition = { ifSha256: createHash('sha256').update('old').digest('hex') };
      if (!extensions) {
        const replacing = fixture.files.replaceFile(uri('file'), content('new'), condition);
        await expect(replacing).rejects.toMatchObject({ kind: 'unsupported' });
        return;
      }
      const replaced = content('n', 'ew');
      const late = async function* () {
        yield* replaced;
        write('file', 'theirs');
      };
      const replacing = fixture.files.replaceFile(uri('file'), late(), condition);
      await expect(replacing).rejects.toMatchObject({ kind: 'conflict' });
      expect([read('file'), leftovers()]).toEqual(['theirs', ['file']]);
      write('file', 'old');
      await fixture.files.replaceFile(uri('file'), content('new'), condition);
      expect([read('file'), leftovers()]).toEqual(['new', ['file']]);
    });

    test('keeps the inode when it is not atomic', async () => {
      write('file', 'old and longer');
      const { ino } = statSync(at('file'));
      await fixture.files.replaceFile(uri('file'), content('new'), { atomic: false });
      expect(read('file')).toBe('new');
      expect(statSync(at('file')).ino).toBe(ino);
    });

    test('accepts content of any size', async () => {
      const piece = Buffer.alloc(700_000, 'abc');
      await fixture.files.replaceFile(uri('file'), [piece, piece, piece], { atomic: false });
      expect(readFileSync(at('file')).equals(Buffer.concat([piece, piece, piece]))).toBe(true);
    });

    test('fails without a parent directory', async () => {
      const replacing = fixture.files.replaceFile(uri('missing/file'), content('x'), { atomic: false });
      await expect(replacing).rejects.toMatchObject(NOT_FOUND);
    });

    const leftovers = () => readdirSync(at('.')).sort();
  });
}

function sha256(content: string | Uint8Array): string {
  return createHash('sha256').update(content).digest('hex');
}
