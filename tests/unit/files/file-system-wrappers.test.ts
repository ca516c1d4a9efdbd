import { describe, expect, test, vi } from 'vitest';
import {
  FILE_OPERATIONS,
  type FileContent,
  type FileOperationName,
  type FileSystem,
  type OpenFile,
} from '../../../src/files/file-system.ts';
import {
  buildFileSystem,
  countHandles,
  deferFileSystem,
  leaseFileSystem,
} from '../../../src/files/file-system-wrappers.ts';
import { LOCAL_FILE_SYSTEM } from '../../../src/files/local/local-file-system.ts';
import { nativePathOfText } from '../../../src/files/native-path.ts';

const PATH = nativePathOfText('/file');
const NAMES = Object.keys(FILE_OPERATIONS) as FileOperationName[];
const SHORT = NAMES.filter((name) => !['content', 'file'].includes(FILE_OPERATIONS[name].result));

test('the table lists every operation of the local file system', () => {
  expect(NAMES.toSorted()).toEqual(Object.keys(LOCAL_FILE_SYSTEM).toSorted());
});

describe('deferFileSystem', () => {
  test.each(NAMES)('forwards %s with its arguments and result', async (name) => {
    const files = buildFileSystem((called) => async (...args) => [called, ...args]);
    const deferred = deferFileSystem(async () => files);
    expect(await call(deferred, name, 1, 2, 3)).toEqual([name, 1, 2, 3]);
  });

  test('fails with the error of the file system that cannot be provided', async () => {
    const deferred = deferFileSystem(() => Promise.reject(new Error('none')));
    await expect(deferred.canonicalize(PATH)).rejects.toThrow('none');
  });
});

describe('leaseFileSystem', () => {
  function lease(result: unknown) {
    const release = vi.fn();
    const files = buildFileSystem(() => async () => {
      expect(release).not.toHaveBeenCalled();
      if (result instanceof Error) throw result;
      return result;
    });
    return { files: leaseFileSystem(async () => ({ files, release })), release };
  }

  test.each(SHORT)('releases the lease at the end of %s', async (name) => {
    const { files, release } = lease('result');
    expect(await call(files, name)).toBe('result');
    expect(release).toHaveBeenCalledOnce();
  });

  test.each(NAMES)('releases the lease when %s fails', async (name) => {
    const { files, release } = lease(new Error('failed'));
    await expect(call(files, name)).rejects.toThrow('failed');
    expect(release).toHaveBeenCalledOnce();
  });

  test('keeps the lease until content is closed', async () => {
    const { files, release } = lease({ size: 1, read: async () => 1, close: async () => {} });
    const content = await files.readFile(PATH, { followSymlinks: true });
    expect(await content.read(Buffer.alloc(1))).toBe(1);
    expect(release).not.toHaveBeenCalled();
    await content.close();
    expect(release).toHaveBeenCalledOnce();
  });

  test('releases the lease immediately for content that is already read', async () => {
    const whole: Partial<FileContent> = { size: 1, whole: Buffer.from('x') };
    const { files, release } = lease(whole);
    expect(await files.readFile(PATH, { followSymlinks: true })).toBe(whole);
    expect(release).toHaveBeenCalledOnce();
  });

  test('keeps the lease until a file is closed, and releases it once', async () => {
    const { files, release } = lease({ close: async () => {}, discard: async () => {} });
    const file = await files.open(PATH, 'read');
    expect(release).not.toHaveBeenCalled();
    await file.close();
    await file.discard();
    expect(release).toHaveBeenCalledOnce();
  });
});

describe('countHandles', () => {
  function create(file: Partial<OpenFile> | Error) {
    const open = vi.fn(async () => {
      if (file instanceof Error) throw file;
      return file as OpenFile;
    });
    const leave = vi.fn();
    const enter = vi.fn(() => leave);
    return { files: countHandles({ open } as unknown as FileSystem, enter), open, enter, leave };
  }

  test.each(['close', 'discard'] as const)('frees the slot on %s, even when that fails', async (end) => {
    const { files, enter, leave } = create({ [end]: () => Promise.reject(new Error('broken')) });
    const file = await files.open(PATH, 'read');
    expect(enter).toHaveBeenCalledOnce();
    expect(leave).not.toHaveBeenCalled();
    await expect(file[end]()).rejects.toThrow('broken');
    expect(leave).toHaveBeenCalledOnce();
  });

  test('frees the slot of a file that cannot be opened', async () => {
    const { files, leave } = create(new Error('missing'));
    await expect(files.open(PATH, 'read')).rejects.toThrow('missing');
    expect(leave).toHaveBeenCalledOnce();
  });

  test('opens nothing without a free slot', async () => {
    const { files, enter, open } = create({});
    enter.mockImplementation(() => {
      throw new Error('full');
    });
    await expect(files.open(PATH, 'read')).rejects.toThrow('full');
    expect(open).not.toHaveBeenCalled();
  });
});

function call(files: FileSystem, name: FileOperationName, ...args: unknown[]): Promise<unknown> {
  return (files[name] as (...args: unknown[]) => Promise<unknown>)(...args);
}
