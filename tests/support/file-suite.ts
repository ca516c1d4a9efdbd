import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import type { SymlinkOptions } from '../../src/client/backend.ts';
import { fileExtensionSuite } from './file-extension-suite.ts';
import { FileScene, type FilesUnderTest, NOT_FOUND } from './file-fixture.ts';
import type { SuiteOptions } from './process-suite.ts';

export type { FilesUnderTest };

const MEGABYTE = 1024 * 1024;
const IS_A_DIRECTORY = { kind: 'server', code: -32603, message: 'Is a directory (os error 21)' };
const NO_LINKS: SymlinkOptions = { followSymlinks: false };

/** What every file system does alike, wherever its files lie. Each test has a folder of its own. */
export function fileSuite(
  name: string,
  open: () => Promise<FilesUnderTest>,
  { extensions = true, skipped = null }: SuiteOptions = {},
): void {
  const title = skipped === null ? name : `${name} (skipped: ${skipped})`;
  describe.skipIf(skipped !== null)(title, () => {
    const scene = new FileScene(open);
    const { at, uri, write, read, furnish } = scene;
    fileExtensionSuite(scene, extensions);

    test('the real path is found', async () => {
      furnish();
      expect(await scene.files.canonicalize(uri('to-dir/../to-dir/inner'))).toBe(uri('dir/inner'));
      await expect(scene.files.canonicalize(uri('to-nothing'))).rejects.toMatchObject(NOT_FOUND);
    });

    test.each([
      ['no URI', '/tmp', { kind: 'server', code: -32602 }],
      ['another scheme', 'https://host/x', { kind: 'server', code: -32602 }],
      ['a path of another system', 'file:///C:/x', { kind: 'invalidInput', code: -32600 }],
    ])('%s is refused', async (_name, path, error) => {
      await expect(scene.files.getMetadata(path)).rejects.toMatchObject({ name: 'ClientError', ...error });
    });

    test('names need not be ASCII, nor text', async () => {
      await scene.files.writeFile(uri('%E2%82%AC%20%25'), 'text');
      expect(read('€ %')).toBe('text');
      await scene.files.writeFile(uri('%FF'), 'bytes');
      const entries = await scene.files.readDirectory(uri('.'));
      expect(entries.map(({ fileName }) => fileName).sort()).toEqual(['€ %', '\ufffd']);
      expect(await scene.files.readFileText(uri('%FF'))).toBe('bytes');
    });

    describe('reading', () => {
      test('gives every byte', async () => {
        const bytes = Uint8Array.from({ length: 70_000 }, (_, index) => index % 251);
        write('file', bytes);
        write('empty', '');
        expect(Buffer.compare(await scene.files.readFile(uri('file')), bytes)).toBe(0);
        expect(await scene.files.readFile(uri('empty'))).toHaveLength(0);
      });

      test('goes to the end of files without a size', async () => {
        const status = await scene.files.readFileText('file:///proc/self/status');
        expect(status).toContain('VmRSS');
      });

      test('as text needs UTF-8 and keeps the byte order mark', async () => {
        write('text', '\ufeffé');
        write('bytes', Uint8Array.of(0x61, 0xff));
        expect(await scene.files.readFileText(uri('text'))).toBe('\ufeffé');
        await expect(scene.files.readFileText(uri('bytes'))).rejects.toMatchObject({ kind: 'invalidData' });
      });

      test.each<[string, string, SymlinkOptions, object]>([
        ['what is not there', 'missing', {}, NOT_FOUND],
        ['a link to nothing', 'to-nothing', {}, NOT_FOUND],
        ['a directory', 'dir', {}, { kind: 'invalidInput', code: -32600 }],
        ['below a file', 'file/x', {}, { kind: 'server', code: -32603 }],
        ['a link that must not be followed', 'to-file', NO_LINKS, { name: 'ClientError' }],
        ['through a link that must not be followed', 'to-dir/inner', NO_LINKS, { name: 'ClientError' }],
      ])('%s fails', async (_name, path, options, error) => {
        furnish();
        await expect(scene.files.readFile(uri(path), options)).rejects.toMatchObject(error);
      });

      test('follows links, and need not', async () => {
        furnish();
        expect(await scene.files.readFileText(uri('to-dir/inner'))).toBe('deep');
        expect(await scene.files.readFileText(uri('file'), NO_LINKS)).toBe('content');
      });
    });

    describe('reading in blocks', () => {
      test.each([
        ['nothing', 0, []],
        ['a part of a block', 10, [10]],
        ['exactly a block', MEGABYTE, [MEGABYTE]],
        ['more than two', 2 * MEGABYTE + 1, [MEGABYTE, MEGABYTE, 1]],
      ])('%s', async (_name, size, sizes) => {
        const bytes = Buffer.from(Uint8Array.from({ length: size }, (_, index) => (index >> 12) % 256));
        write('file', bytes);
        const blocks: Uint8Array[] = [];
        for await (const block of scene.files.readFileStream(uri('file'))) blocks.push(block);
        expect(blocks.map((block) => block.length)).toEqual(sizes);
        expect(Buffer.concat(blocks).equals(bytes)).toBe(true);
      });

      test('may be left early, any number of times', async () => {
        write('file', 'x');
        for (let round = 0; round < 200; round++) {
          for await (const block of scene.files.readFileStream(uri('file'))) {
            expect(block).toHaveLength(1);
            break;
          }
        }
      });

      test.each([
        ['missing', NOT_FOUND],
        ['dir', { kind: 'invalidInput', code: -32600 }],
      ])('of %s fails', async (path, error) => {
        furnish();
        const first = scene.files.readFileStream(uri(path))[Symbol.asyncIterator]().next();
        await expect(first).rejects.toMatchObject(error);
      });
    });

    describe('writing', () => {
      test('creates a file or fills an existing one, whose inode stays', async () => {
        await scene.files.writeFile(uri('file'), 'first and longer');
        const { ino } = statSync(at('file'));
        await scene.files.writeFile(uri('file'), Uint8Array.of(0xff, 0));
        expect([...readFileSync(at('file'))]).toEqual([0xff, 0]);
        expect(statSync(at('file')).ino).toBe(ino);
        await scene.files.writeFile(uri('file'), '');
        expect(read('file')).toBe('');
      });

      test('goes through links, and need not', async () => {
        furnish();
        await scene.files.writeFile(uri('to-file'), 'new');
        expect(read('file')).toBe('new');
        await expect(scene.files.writeFile(uri('to-file'), 'newer', NO_LINKS)).rejects.toMatchObject({
          name: 'ClientError',
        });
        expect(read('file')).toBe('new');
      });

      test.each([
        ['a directory', 'dir', IS_A_DIRECTORY],
        ['where there is no directory', 'missing/file', NOT_FOUND],
      ])('to %s fails', async (_name, path, error) => {
        furnish();
        await expect(scene.files.writeFile(uri(path), 'x')).rejects.toMatchObject(error);
      });

      test('and reading need not wait for each other', async () => {
        const written = scene.files.writeFile(uri('file'), 'seen');
        expect(await scene.files.readFileText(uri('file'))).toBe('seen');
        await written;
      });

      test('takes the bytes as they were', async () => {
        const bytes = Buffer.from('good');
        const written = scene.files.writeFile(uri('file'), bytes);
        bytes.fill('x');
        await written;
        expect(read('file')).toBe('good');
      });
    });

    describe('directories', () => {
      test('are created with their parents, and need not be', async () => {
        await scene.files.createDirectory(uri('a/b'));
        await scene.files.createDirectory(uri('a/b'));
        expect(statSync(at('a/b')).isDirectory()).toBe(true);
        const once = { recursive: false };
        await expect(scene.files.createDirectory(uri('x/y'), once)).rejects.toMatchObject(NOT_FOUND);
        const exists = { kind: 'server', code: -32603, message: 'File exists (os error 17)' };
        await expect(scene.files.createDirectory(uri('a'), once)).rejects.toMatchObject(exists);
      });

      test('are listed', async () => {
        furnish();
        const entries = await scene.files.readDirectory(uri('.'));
        expect([...entries].sort((a, b) => a.fileName.localeCompare(b.fileName))).toEqual([
          { fileName: 'dir', isDirectory: true, isFile: false },
          { fileName: 'file', isDirectory: false, isFile: true },
          { fileName: 'to-dir', isDirectory: true, isFile: false },
          { fileName: 'to-file', isDirectory: false, isFile: true },
        ]);
        await expect(scene.files.readDirectory(uri('missing'))).rejects.toMatchObject(NOT_FOUND);
        await expect(scene.files.readDirectory(uri('file'))).rejects.toMatchObject({ name: 'ClientError' });
      });

      test('are walked', async () => {
        furnish();
        const limits = { maxDepth: 5, maxDirectories: 10, maxEntries: 100, followDirectorySymlinks: false };
        expect(await scene.files.walk(uri('.'), limits)).toEqual({
          entries: [
            { path: uri('dir'), kind: 'directory' },
            { path: uri('file'), kind: 'file' },
            { path: uri('dir/inner'), kind: 'file' },
          ],
          errors: [],
          truncated: false,
        });
        expect(await scene.files.walk(uri('.'), { ...limits, maxEntries: 1 })).toMatchObject({
          truncated: true,
        });
      });

      test.each([
        ['what is not there', 'missing', {}, NOT_FOUND],
        ['with a limit out of range', '.', { maxDepth: 65 }, { kind: 'invalidInput', code: -32600 }],
        ['with a limit that is no number', '.', { maxDepth: -1 }, { kind: 'server', code: -32602 }],
      ])('to walk %s fails', async (_name, path, limits, error) => {
        const whole = {
          maxDepth: 1,
          maxDirectories: 1,
          maxEntries: 1,
          followDirectorySymlinks: true,
          ...limits,
        };
        await expect(scene.files.walk(uri(path), whole)).rejects.toMatchObject(error);
      });
    });

    describe('metadata', () => {
      test('tells what a path is', async () => {
        furnish();
        const { mtimeMs } = statSync(at('file'));
        expect(await scene.files.getMetadata(uri('file'))).toEqual({
          isDirectory: false,
          isFile: true,
          isSymlink: false,
          size: 7,
          createdAtMs: expect.any(Number),
          modifiedAtMs: Math.floor(mtimeMs),
        });
        expect(await scene.files.getMetadata(uri('dir'))).toMatchObject({ isDirectory: true, isFile: false });
        expect(await scene.files.getMetadata(uri('to-dir'))).toMatchObject({
          isDirectory: true,
          isSymlink: true,
        });
      });

      test('of a link that leads nowhere, or must not be followed, fails', async () => {
        furnish();
        await expect(scene.files.getMetadata(uri('to-nothing'))).rejects.toMatchObject(NOT_FOUND);
        const failure = scene.files.getMetadata(uri('to-file'), NO_LINKS);
        await expect(failure).rejects.toMatchObject({ name: 'ClientError' });
      });

      test('is never out of date', async () => {
        for (let size = 1; size <= 20; size++) {
          const before = scene.files.getMetadata(uri('.'));
          const written = scene.files.writeFile(uri('file'), 'x'.repeat(size));
          await written;
          expect(await scene.files.getMetadata(uri('file'))).toMatchObject({ size });
          await before;
        }
      });
    });

    describe('removing', () => {
      test('takes trees, links themselves, and what is not there', async () => {
        furnish();
        await scene.files.remove(uri('to-dir'));
        expect(existsSync(at('dir/inner'))).toBe(true);
        await scene.files.remove(uri('dir'));
        expect(existsSync(at('dir'))).toBe(false);
        await scene.files.remove(uri('dir'));
      });

      test('can insist', async () => {
        furnish();
        const missing = scene.files.remove(uri('missing'), { force: false });
        await expect(missing).rejects.toMatchObject(NOT_FOUND);
        const tree = scene.files.remove(uri('dir'), { recursive: false });
        await expect(tree).rejects.toMatchObject({ name: 'ClientError' });
        expect(existsSync(at('dir/inner'))).toBe(true);
        const below = scene.files.remove(uri('to-dir/inner'), NO_LINKS);
        await expect(below).rejects.toMatchObject({ name: 'ClientError' });
        expect(existsSync(at('dir/inner'))).toBe(true);
      });
    });

    describe('copying', () => {
      test('takes files and trees', async () => {
        furnish();
        await scene.files.copy(uri('file'), uri('copy'), { recursive: false });
        expect(read('copy')).toBe('content');
        await scene.files.copy(uri('dir'), uri('tree'), { recursive: true });
        expect(read('tree/inner')).toBe('deep');
      });

      test('fails', async () => {
        furnish();
        const missing = scene.files.copy(uri('missing'), uri('x'), { recursive: true });
        await expect(missing).rejects.toMatchObject(NOT_FOUND);
        const tree = scene.files.copy(uri('dir'), uri('x'), { recursive: false });
        await expect(tree).rejects.toMatchObject({ kind: 'invalidInput', code: -32600 });
      });
    });

    describe('giving up', () => {
      test.each<[string, (options: { signal: AbortSignal }) => Promise<unknown>]>([
        ['reading', (options) => scene.files.readFile(uri('file'), options)],
        ['writing', (options) => scene.files.writeFile(uri('file'), 'new', options)],
        ['walking', (options) => walkAll(options)],
      ])('%s before it begins', async (_name, attempt) => {
        write('file', 'old');
        await expect(attempt({ signal: AbortSignal.abort() })).rejects.toMatchObject({ kind: 'aborted' });
        expect(read('file')).toBe('old');
      });

      // A server of the basic protocol may answer nothing else while it waits.
      test.runIf(extensions)('a write that waits for a reader', async () => {
        execFileSync('mkfifo', [at('fifo')]);
        const writing = scene.files.writeFile(uri('fifo'), 'x', { timeoutMs: 50 });
        await expect(writing).rejects.toMatchObject({ kind: 'timeout' });
        const giveUp = new AbortController();
        const aborted = scene.files.writeFile(uri('fifo'), 'x', { signal: giveUp.signal });
        giveUp.abort();
        await expect(aborted).rejects.toMatchObject({ kind: 'aborted' });
      });

      const walkAll = (options: { signal: AbortSignal }) =>
        scene.files.walk(
          uri('.'),
          { maxDepth: 1, maxDirectories: 1, maxEntries: 1, followDirectorySymlinks: false },
          options,
        );
    });

    test('a sandbox may be switched off', async () => {
      write('file', 'x');
      const sandbox = { permissions: { type: 'disabled' }, windowsSandboxLevel: 'disabled' };
      expect(await scene.files.readFileText(uri('file'), { sandbox })).toBe('x');
      expect(await scene.files.readFileText(uri('file'), { sandbox: null })).toBe('x');
    });

    test('a sandbox of no known form is refused', async () => {
      write('file', 'x');
      const reading = scene.files.readFile(uri('file'), { sandbox: { windowsSandboxLevel: 'disabled' } });
      await expect(reading).rejects.toMatchObject({ kind: 'server', code: -32602 });
    });
  });
}
