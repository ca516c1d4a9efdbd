import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import type { SymlinkOptions } from '../../src/client/backend.ts';
import { fileExtensionSuite } from './file-extension-suite.ts';
import { FileFixture, type FilesUnderTest, NOT_FOUND } from './file-fixture.ts';
import type { SuiteOptions } from './process-suite.ts';

export type { FilesUnderTest };

const MEGABYTE = 1024 * 1024;
const IS_A_DIRECTORY = { kind: 'isDirectory', code: -32603, message: 'Is a directory (os error 21)' };
const NO_LINKS: SymlinkOptions = { followSymlinks: false };

/** Tests that every file system passes, local or remote. Each test has its own directory. */
export function fileSuite(
  name: string,
  open: () => Promise<FilesUnderTest>,
  { extensions = true, skipped = null }: SuiteOptions = {},
): void {
  const title = skipped === null ? name : `${name} (skipped: ${skipped})`;
  describe.skipIf(skipped !== null)(title, () => {
    const fixture = new FileFixture(open);
    const { at, uri, write, read, populate } = fixture;
    fileExtensionSuite(fixture, extensions);

    test('canonicalize returns the real path', async () => {
      populate();
      expect(await fixture.files.canonicalize(uri('to-dir/../to-dir/inner'))).toBe(uri('dir/inner'));
      await expect(fixture.files.canonicalize(uri('to-nothing'))).rejects.toMatchObject(NOT_FOUND);
    });

    test.each([
      ['no URI', '/tmp', { kind: 'invalidInput', code: -32602 }],
      ['another scheme', 'https://host/x', { kind: 'invalidInput', code: -32602 }],
      ['a path of another system', 'file:///C:/x', { kind: 'invalidInput', code: -32600 }],
    ])('rejects %s', async (_name, path, error) => {
      await expect(fixture.files.getMetadata(path)).rejects.toMatchObject({ name: 'ClientError', ...error });
    });

    test('names need not be ASCII or UTF-8', async () => {
      await fixture.files.writeFile(uri('%E2%82%AC%20%25'), 'text');
      expect(read('€ %')).toBe('text');
      await fixture.files.writeFile(uri('%FF'), 'bytes');
      const entries = await fixture.files.readDirectory(uri('.'));
      expect(entries.map(({ fileName }) => fileName).sort()).toEqual(['€ %', '\ufffd']);
      expect(await fixture.files.readFileText(uri('%FF'))).toBe('bytes');
    });

    describe('readFile', () => {
      test('returns every byte', async () => {
        const bytes = Uint8Array.from({ length: 70_000 }, (_, index) => index % 251);
        write('file', bytes);
        write('empty', '');
        expect(Buffer.compare(await fixture.files.readFile(uri('file')), bytes)).toBe(0);
        expect(await fixture.files.readFile(uri('empty'))).toHaveLength(0);
      });

      test('reads files without a size to their end', async () => {
        const status = await fixture.files.readFileText('file:///proc/self/status');
        expect(status).toContain('VmRSS');
      });

      test('as text requires UTF-8 and keeps the byte order mark', async () => {
        write('text', '\ufeffé');
        write('bytes', Uint8Array.of(0x61, 0xff));
        expect(await fixture.files.readFileText(uri('text'))).toBe('\ufeffé');
        await expect(fixture.files.readFileText(uri('bytes'))).rejects.toMatchObject({ kind: 'invalidData' });
      });

      test.each<[string, string, SymlinkOptions, object]>([
        ['a missing path', 'missing', {}, NOT_FOUND],
        ['a dangling link', 'to-nothing', {}, NOT_FOUND],
        ['a directory', 'dir', {}, { kind: 'invalidInput', code: -32600 }],
        ['below a file', 'file/x', {}, { kind: 'notDirectory', code: -32603 }],
        ['a link that must not be followed', 'to-file', NO_LINKS, { name: 'ClientError' }],
        [
          'a path through a link that must not be followed',
          'to-dir/inner',
          NO_LINKS,
          { name: 'ClientError' },
        ],
      ])('fails for %s', async (_name, path, options, error) => {
        populate();
        await expect(fixture.files.readFile(uri(path), options)).rejects.toMatchObject(error);
      });

      test('follows links by default, and not on request', async () => {
        populate();
        expect(await fixture.files.readFileText(uri('to-dir/inner'))).toBe('deep');
        expect(await fixture.files.readFileText(uri('file'), NO_LINKS)).toBe('content');
      });
    });

    describe('readFileStream', () => {
      test.each([
        ['nothing', 0, []],
        ['a part of a block', 10, [10]],
        ['exactly a block', MEGABYTE, [MEGABYTE]],
        ['more than two', 2 * MEGABYTE + 1, [MEGABYTE, MEGABYTE, 1]],
      ])('%s', async (_name, size, sizes) => {
        const bytes = Buffer.from(Uint8Array.from({ length: size }, (_, index) => (index >> 12) % 256));
        write('file', bytes);
        const blocks: Uint8Array[] = [];
        for await (const block of fixture.files.readFileStream(uri('file'))) blocks.push(block);
        expect(blocks.map((block) => block.length)).toEqual(sizes);
        expect(Buffer.concat(blocks).equals(bytes)).toBe(true);
      });

      test('can be left early, any number of times', async () => {
        write('file', 'x');
        for (let round = 0; round < 200; round++) {
          for await (const block of fixture.files.readFileStream(uri('file'))) {
            expect(block).toHaveLength(1);
            break;
          }
        }
      });

      test.each([
        ['missing', NOT_FOUND],
        ['dir', { kind: 'invalidInput', code: -32600 }],
      ])('fails for %s', async (path, error) => {
        populate();
        const first = fixture.files.readFileStream(uri(path))[Symbol.asyncIterator]().next();
        await expect(first).rejects.toMatchObject(error);
      });
    });

    describe('writeFile', () => {
      test('creates a file or overwrites an existing one in place', async () => {
        await fixture.files.writeFile(uri('file'), 'first and longer');
        const { ino } = statSync(at('file'));
        await fixture.files.writeFile(uri('file'), Uint8Array.of(0xff, 0));
        expect([...readFileSync(at('file'))]).toEqual([0xff, 0]);
        expect(statSync(at('file')).ino).toBe(ino);
        await fixture.files.writeFile(uri('file'), '');
        expect(read('file')).toBe('');
      });

      test('follows links by default, and not on request', async () => {
        populate();
        await fixture.files.writeFile(uri('to-file'), 'new');
        expect(read('file')).toBe('new');
        await expect(fixture.files.writeFile(uri('to-file'), 'newer', NO_LINKS)).rejects.toMatchObject({
          name: 'ClientError',
        });
        expect(read('file')).toBe('new');
      });

      test.each([
        ['a directory', 'dir', IS_A_DIRECTORY],
        ['a path without a parent directory', 'missing/file', NOT_FOUND],
      ])('fails for %s', async (_name, path, error) => {
        populate();
        await expect(fixture.files.writeFile(uri(path), 'x')).rejects.toMatchObject(error);
      });

      test('can run concurrently with reads', async () => {
        const written = fixture.files.writeFile(uri('file'), 'seen');
        expect(await fixture.files.readFileText(uri('file'))).toBe('seen');
        await written;
      });

      test('uses the bytes at the time of the call', async () => {
        const bytes = Buffer.from('good');
        const written = fixture.files.writeFile(uri('file'), bytes);
        bytes.fill('x');
        await written;
        expect(read('file')).toBe('good');
      });
    });

    describe('directories', () => {
      test('are created with their parents by default, and not on request', async () => {
        await fixture.files.createDirectory(uri('a/b'));
        await fixture.files.createDirectory(uri('a/b'));
        expect(statSync(at('a/b')).isDirectory()).toBe(true);
        const once = { recursive: false };
        await expect(fixture.files.createDirectory(uri('x/y'), once)).rejects.toMatchObject(NOT_FOUND);
        const exists = { kind: 'exists', code: -32603, message: 'File exists (os error 17)' };
        await expect(fixture.files.createDirectory(uri('a'), once)).rejects.toMatchObject(exists);
      });

      test('are listed', async () => {
        populate();
        const entries = await fixture.files.readDirectory(uri('.'));
        expect([...entries].sort((a, b) => a.fileName.localeCompare(b.fileName))).toEqual([
          { fileName: 'dir', isDirectory: true, isFile: false },
          { fileName: 'file', isDirectory: false, isFile: true },
          { fileName: 'to-dir', isDirectory: true, isFile: false },
          { fileName: 'to-file', isDirectory: false, isFile: true },
        ]);
        await expect(fixture.files.readDirectory(uri('missing'))).rejects.toMatchObject(NOT_FOUND);
        await expect(fixture.files.readDirectory(uri('file'))).rejects.toMatchObject({ name: 'ClientError' });
      });

      test('are walked', async () => {
        populate();
        const limits = { maxDepth: 5, maxDirectories: 10, maxEntries: 100, followDirectorySymlinks: false };
        expect(await fixture.files.walk(uri('.'), limits)).toEqual({
          entries: [
            { path: uri('dir'), kind: 'directory' },
            { path: uri('file'), kind: 'file' },
            { path: uri('dir/inner'), kind: 'file' },
          ],
          errors: [],
          truncated: false,
        });
        expect(await fixture.files.walk(uri('.'), { ...limits, maxEntries: 1 })).toMatchObject({
          truncated: true,
        });
      });

      test.each([
        ['a missing path', 'missing', {}, NOT_FOUND],
        ['a limit out of range', '.', { maxDepth: 65 }, { kind: 'invalidInput', code: -32600 }],
        ['an invalid limit', '.', { maxDepth: -1 }, { kind: 'invalidInput', code: -32602 }],
      ])('fail to walk for %s', async (_name, path, limits, error) => {
        const whole = {
          maxDepth: 1,
          maxDirectories: 1,
          maxEntries: 1,
          followDirectorySymlinks: true,
          ...limits,
        };
        await expect(fixture.files.walk(uri(path), whole)).rejects.toMatchObject(error);
      });
    });

    describe('getMetadata', () => {
      test('returns the type of a path', async () => {
        populate();
        const { mtimeMs } = statSync(at('file'));
        expect(await fixture.files.getMetadata(uri('file'))).toEqual({
          isDirectory: false,
          isFile: true,
          isSymlink: false,
          size: 7,
          createdAtMs: expect.any(Number),
          modifiedAtMs: Math.floor(mtimeMs),
        });
        expect(await fixture.files.getMetadata(uri('dir'))).toMatchObject({
          isDirectory: true,
          isFile: false,
        });
        expect(await fixture.files.getMetadata(uri('to-dir'))).toMatchObject({
          isDirectory: true,
          isSymlink: true,
        });
      });

      test('fails for a dangling link and for a link that must not be followed', async () => {
        populate();
        await expect(fixture.files.getMetadata(uri('to-nothing'))).rejects.toMatchObject(NOT_FOUND);
        const failure = fixture.files.getMetadata(uri('to-file'), NO_LINKS);
        await expect(failure).rejects.toMatchObject({ name: 'ClientError' });
      });

      test('is never out of date', async () => {
        for (let size = 1; size <= 20; size++) {
          const before = fixture.files.getMetadata(uri('.'));
          const written = fixture.files.writeFile(uri('file'), 'x'.repeat(size));
          await written;
          expect(await fixture.files.getMetadata(uri('file'))).toMatchObject({ size });
          await before;
        }
      });
    });

    describe('remove', () => {
      test('removes trees, links themselves, and accepts missing paths', async () => {
        populate();
        await fixture.files.remove(uri('to-dir'));
        expect(existsSync(at('dir/inner'))).toBe(true);
        await fixture.files.remove(uri('dir'));
        expect(existsSync(at('dir'))).toBe(false);
        await fixture.files.remove(uri('dir'));
      });

      test('fails for missing paths without force', async () => {
        populate();
        const missing = fixture.files.remove(uri('missing'), { force: false });
        await expect(missing).rejects.toMatchObject(NOT_FOUND);
        const tree = fixture.files.remove(uri('dir'), { recursive: false });
        await expect(tree).rejects.toMatchObject({ name: 'ClientError' });
        expect(existsSync(at('dir/inner'))).toBe(true);
        const below = fixture.files.remove(uri('to-dir/inner'), NO_LINKS);
        await expect(below).rejects.toMatchObject({ name: 'ClientError' });
        expect(existsSync(at('dir/inner'))).toBe(true);
      });
    });

    describe('copy', () => {
      test('copies files and trees', async () => {
        populate();
        await fixture.files.copy(uri('file'), uri('copy'), { recursive: false });
        expect(read('copy')).toBe('content');
        await fixture.files.copy(uri('dir'), uri('tree'), { recursive: true });
        expect(read('tree/inner')).toBe('deep');
      });

      test('reports failures', async () => {
        populate();
        const missing = fixture.files.copy(uri('missing'), uri('x'), { recursive: true });
        await expect(missing).rejects.toMatchObject(NOT_FOUND);
        const tree = fixture.files.copy(uri('dir'), uri('x'), { recursive: false });
        await expect(tree).rejects.toMatchObject({ kind: 'invalidInput', code: -32600 });
      });
    });

    describe('aborting', () => {
      test.each<[string, (options: { signal: AbortSignal }) => Promise<unknown>]>([
        ['reading', (options) => fixture.files.readFile(uri('file'), options)],
        ['writing', (options) => fixture.files.writeFile(uri('file'), 'new', options)],
        ['walking', (options) => walkAll(options)],
      ])('rejects %s before it starts', async (_name, attempt) => {
        write('file', 'old');
        await expect(attempt({ signal: AbortSignal.abort() })).rejects.toMatchObject({ kind: 'aborted' });
        expect(read('file')).toBe('old');
      });

      // A server of the basic protocol may answer nothing else while it waits.
      test.runIf(extensions)('ends a write that waits for a reader', async () => {
        execFileSync('mkfifo', [at('fifo')]);
        const writing = fixture.files.writeFile(uri('fifo'), 'x', { timeoutMs: 50 });
        await expect(writing).rejects.toMatchObject({ kind: 'timeout' });
        const giveUp = new AbortController();
        const aborted = fixture.files.writeFile(uri('fifo'), 'x', { signal: giveUp.signal });
        giveUp.abort();
        await expect(aborted).rejects.toMatchObject({ kind: 'aborted' });
      });

      const walkAll = (options: { signal: AbortSignal }) =>
        fixture.files.walk(
          uri('.'),
          { maxDepth: 1, maxDirectories: 1, maxEntries: 1, followDirectorySymlinks: false },
          options,
        );
    });

    test('a sandbox can be switched off', async () => {
      write('file', 'x');
      const sandbox = { permissions: { type: 'disabled' }, windowsSandboxLevel: 'disabled' };
      expect(await fixture.files.readFileText(uri('file'), { sandbox })).toBe('x');
      expect(await fixture.files.readFileText(uri('file'), { sandbox: null })).toBe('x');
    });

    test('rejects a sandbox of an unknown form', async () => {
      write('file', 'x');
      const reading = fixture.files.readFile(uri('file'), { sandbox: { windowsSandboxLevel: 'disabled' } });
      await expect(reading).rejects.toMatchObject({ kind: 'invalidInput', code: -32602 });
    });
  });
}
