import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { FileSystem } from '../../../../src/files/file-system.ts';
import { nativePathOfText } from '../../../../src/files/native-path.ts';
import { waitFor } from '../../../support/wait-for.ts';

const { loadCachedCalls } = vi.hoisted(() => ({ loadCachedCalls: vi.fn() }));
vi.mock('../../../../src/native/cached-calls.ts', () => ({ loadCachedCalls }));

let folder: string;
let servedFiles: (native: boolean) => FileSystem;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'served-files-'));
  writeFileSync(join(folder, 'file'), 'content');
  loadCachedCalls.mockReset();
  vi.resetModules();
  ({ servedFiles } = await import('../../../../src/server/sessions/served-files.ts'));
});

afterEach(() => {
  rmSync(folder, { recursive: true });
});

async function read(files: FileSystem): Promise<string> {
  const content = await files.readFile(nativePathOfText(join(folder, 'file')), { followSymlinks: true });
  const buffer = Buffer.alloc(20);
  const text = buffer.toString('latin1', 0, await content.read(buffer));
  await content.close();
  return text;
}

test('native calls are loaded with the first read and used from then on', async () => {
  const openFile = vi.fn(() => null);
  loadCachedCalls.mockResolvedValue({ openFile, read: () => null });
  const files = servedFiles(true);
  expect(loadCachedCalls).not.toHaveBeenCalled();
  await waitFor('a native call', async () => {
    expect(await read(files)).toBe('content');
    return openFile.mock.calls.length > 0;
  });
  expect(loadCachedCalls).toHaveBeenCalledOnce();
});

test('where they cannot be had files are read all the same, and nobody asks again', async () => {
  loadCachedCalls.mockRejectedValue(new Error('not here'));
  const files = servedFiles(true);
  await waitFor('the attempt', async () => {
    expect(await read(files)).toBe('content');
    return loadCachedCalls.mock.calls.length > 0;
  });
  expect(await read(files)).toBe('content');
  expect(loadCachedCalls).toHaveBeenCalledOnce();
});

test('where they are not wanted they are not loaded', async () => {
  expect(await read(servedFiles(false))).toBe('content');
  expect(await read(servedFiles(false))).toBe('content');
  expect(loadCachedCalls).not.toHaveBeenCalled();
});
