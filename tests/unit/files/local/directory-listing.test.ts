import { readdir } from 'node:fs';
import { afterEach, expect, test, vi } from 'vitest';
import { directoryBatches } from '../../../../src/files/local/directory-listing.ts';
import { childPath, type NativePath } from '../../../../src/files/native-path.ts';
import { makeTree, temporaryDirectory } from './temporary-tree.ts';

vi.mock('node:fs', async (importOriginal) => {
  const original = await importOriginal<typeof import('node:fs')>();
  return { ...original, readdir: vi.fn(original.readdir) };
});

afterEach(() => {
  vi.mocked(readdir).mockClear();
});

async function listed(path: NativePath): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  for await (const batch of directoryBatches(path)) {
    for (const entry of batch) {
      found[entry.name] = entry.isFile() ? 'file' : entry.isDirectory() ? 'directory' : 'other';
      if (entry.isSymbolicLink()) found[entry.name] = 'link';
    }
  }
  return found;
}

test('determines types where the file system does not report them', async () => {
  const root = await temporaryDirectory();
  await makeTree(root, { 'a\xff': '', d: null, l: { link: 'missing' } });
  vi.mocked(readdir).mockImplementationOnce((_path: unknown, _options: unknown, done: unknown) => {
    (done as (error: Error) => void)(new Error('no type of a name that is not ASCII'));
  });
  expect(await listed(root)).toEqual({ 'a\xff': 'file', d: 'directory', l: 'link' });
  expect(readdir).toHaveBeenCalledOnce();
});

test('reports why a directory cannot be read', async () => {
  const root = await temporaryDirectory();
  await makeTree(root, { file: '' });
  await expect(listed(childPath(root, 'file'))).rejects.toMatchObject({ code: 'ENOTDIR' });
});
