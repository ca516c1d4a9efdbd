import { expect, test, vi } from 'vitest';
import { countHandles } from '../../../src/files/counted-handles.ts';
import type { FileSystem, OpenFile } from '../../../src/files/file-system.ts';
import { nativePathOfText } from '../../../src/files/native-path.ts';

const PATH = nativePathOfText('/file');

function create(file: Partial<OpenFile> | Error) {
  const open = vi.fn(async () => {
    if (file instanceof Error) throw file;
    return file as OpenFile;
  });
  const leave = vi.fn();
  const enter = vi.fn(() => leave);
  return { files: countHandles({ open } as unknown as FileSystem, enter), open, enter, leave };
}

test.each(['close', 'discard'] as const)('a place is given back by %s, also when that fails', async (end) => {
  const { files, enter, leave } = create({ [end]: () => Promise.reject(new Error('broken')) });
  const file = await files.open(PATH, 'read');
  expect(enter).toHaveBeenCalledOnce();
  expect(leave).not.toHaveBeenCalled();
  await expect(file[end]()).rejects.toThrow('broken');
  expect(leave).toHaveBeenCalledOnce();
});

test('a file that cannot be opened keeps no place', async () => {
  const { files, leave } = create(new Error('missing'));
  await expect(files.open(PATH, 'read')).rejects.toThrow('missing');
  expect(leave).toHaveBeenCalledOnce();
});

test('without a place nothing is opened', async () => {
  const { files, enter, open } = create({});
  enter.mockImplementation(() => {
    throw new Error('full');
  });
  await expect(files.open(PATH, 'read')).rejects.toThrow('full');
  expect(open).not.toHaveBeenCalled();
});
