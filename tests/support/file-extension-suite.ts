import { existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import type { FileChange, FileChanges } from '../../src/client/backend.ts';
import { type FileScene, NOT_FOUND } from './file-fixture.ts';

/** What a file system does beyond the basic protocol; without `extensions`, how it says that it does not. */
export function fileExtensionSuite(scene: FileScene, extensions: boolean): void {
  const { at, uri, write, read, furnish } = scene;

  describe('renaming', () => {
    test('replaces what is there', async () => {
      furnish();
      const renaming = scene.files.rename(uri('dir/inner'), uri('file'));
      if (!extensions) {
        await expect(renaming).rejects.toMatchObject({ kind: 'unsupported' });
        return;
      }
      await renaming;
      expect(read('file')).toBe('deep');
      expect(existsSync(at('dir/inner'))).toBe(false);
      await expect(scene.files.rename(uri('missing'), uri('x'))).rejects.toMatchObject(NOT_FOUND);
    });
  });

  describe('searching', () => {
    test('finds lines', async () => {
      furnish();
      write('dir/more', 'one\ntwo deep\n');
      const searching = scene.files.search(uri('.'), 'd(e+)p', { exclude: ['inner'] });
      if (!extensions) {
        await expect(searching).rejects.toMatchObject({ kind: 'unsupported' });
        return;
      }
      expect(await searching).toMatchObject({
        matches: [{ path: uri('dir/more'), line: 2, column: 5, text: 'two deep' }],
        truncated: null,
      });
      await expect(scene.files.search(uri('.'), '(')).rejects.toMatchObject({
        kind: 'invalidInput',
        code: -32600,
      });
      await expect(scene.files.search(uri('missing'), 'x')).rejects.toMatchObject(NOT_FOUND);
      const negative = scene.files.search(uri('.'), 'x', { maxResults: -1 });
      await expect(negative).rejects.toMatchObject({ kind: 'server', code: -32602 });
    });
  });

  describe('watching', () => {
    test('tells what changes, until it is closed', async () => {
      mkdirSync(at('dir'));
      const watching = scene.files.watch(uri('dir'), { debounceMs: 1 });
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

    test('what is not there fails', async () => {
      const expected = extensions ? NOT_FOUND : { kind: 'unsupported' };
      await expect(scene.files.watch(uri('missing'))).rejects.toMatchObject(expected);
    });

    test.runIf(extensions)('ends with the loop, and makes room for others', async () => {
      for (let round = 0; round < 40; round++) {
        const watch = await scene.files.watch(uri('.'), { debounceMs: 1 });
        write(`file-${round}`);
        for await (const { changes } of watch) if (changes.length > 0) break;
      }
    });
  });

  describe('replacing', () => {
    const content = async function* (...parts: (string | Error)[]) {
      for (const part of parts) {
        if (part instanceof Error) throw part;
        yield Buffer.from(part);
      }
    };

    test('puts a new file in the place of the old one', async () => {
      write('file', 'old');
      symlinkSync('file', at('link'));
      const replacing = scene.files.replaceFile(uri('link'), content('n', 'ew'));
      if (!extensions) {
        await expect(replacing).rejects.toMatchObject({ kind: 'unsupported' });
        expect(read('file')).toBe('old');
        return;
      }
      await replacing;
      expect(read('file')).toBe('new');
      expect(lstatSync(at('link')).isSymbolicLink()).toBe(true);
      await scene.files.replaceFile(uri('another'), []);
      expect(read('another')).toBe('');
      expect(leftovers()).toEqual(['another', 'file', 'link']);
    });

    test.runIf(extensions)('leaves the old file alone when the new content fails', async () => {
      write('file', 'old');
      const failing = scene.files.replaceFile(uri('file'), content('half', new Error('the source broke')));
      await expect(failing).rejects.toThrow('the source broke');
      expect(read('file')).toBe('old');
      expect(leftovers()).toEqual(['file']);
    });

    test.runIf(extensions)('can be given up while its source has nothing to give', async () => {
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
      const replacing = scene.files.replaceFile(uri('file'), silent, { signal: giveUp.signal });
      await expect(replacing).rejects.toMatchObject({ kind: 'aborted' });
      expect(left).toBe(true);
      expect(read('file')).toBe('old');
    });

    test('in place keeps the inode', async () => {
      write('file', 'old and longer');
      const { ino } = statSync(at('file'));
      await scene.files.replaceFile(uri('file'), content('new'), { atomic: false });
      expect(read('file')).toBe('new');
      expect(statSync(at('file')).ino).toBe(ino);
    });

    test('takes contents of any size', async () => {
      const piece = Buffer.alloc(700_000, 'abc');
      await scene.files.replaceFile(uri('file'), [piece, piece, piece], { atomic: false });
      expect(readFileSync(at('file')).equals(Buffer.concat([piece, piece, piece]))).toBe(true);
    });

    test('where there is no directory fails', async () => {
      const replacing = scene.files.replaceFile(uri('missing/file'), content('x'), { atomic: false });
      await expect(replacing).rejects.toMatchObject(NOT_FOUND);
    });

    const leftovers = () => readdirSync(at('.')).sort();
  });
}
