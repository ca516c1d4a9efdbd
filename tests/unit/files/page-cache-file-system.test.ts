import { mkdirSync, symlinkSync, unlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { beforeAll, beforeEach, expect, test, vi } from 'vitest';
import type { FileSystem } from '../../../src/files/file-system.ts';
import { INLINE_CLOSE_MAX_BYTES } from '../../../src/files/limits.ts';
import { LOCAL_FILE_SYSTEM } from '../../../src/files/local/local-file-system.ts';
import type { NativePath } from '../../../src/files/native-path.ts';
import { pageCacheFileSystem } from '../../../src/files/page-cache-file-system.ts';
import { type CachedCalls, loadCachedCalls } from '../../../src/native/cached-calls.ts';
import { waitFor } from '../../support/wait-for.ts';
import { outcome, Scratch } from './local/scratch.ts';

// Not /tmp: while a sandbox of another test mounts over a directory, the cache has no answer for paths below it.
const scratch = new Scratch('/var/tmp');
const FOLLOW = { followSymlinks: true };
const NO_FOLLOW = { followSymlinks: false };
let native: CachedCalls;
let calls: CachedCalls;
let files: FileSystem;
const ordinary = {
  ...LOCAL_FILE_SYSTEM,
  readFile: vi.fn(LOCAL_FILE_SYSTEM.readFile),
  open: vi.fn(LOCAL_FILE_SYSTEM.open),
  getMetadata: vi.fn(LOCAL_FILE_SYSTEM.getMetadata),
};

beforeAll(async () => {
  native = await loadCachedCalls();
});

beforeEach(() => {
  vi.clearAllMocks();
  calls = {
    openPath: vi.fn((path, links) => openWithRetry(() => native.openPath(path, links))),
    openFile: vi.fn((path, links) => openWithRetry(() => native.openFile(path, links))),
    readSmall: vi.fn(native.readSmall),
    read: vi.fn(native.read),
  };
  files = pageCacheFileSystem(ordinary, () => calls);
});

/** The kernel may report that it would block while another process mounts something. */
function openWithRetry<T>(open: () => T | null): T | null {
  for (let attempt = 0; attempt < 1_000; attempt++) {
    const opened = open();
    if (opened !== null) return opened;
  }
  return null;
}

function fileOf(content: string): NativePath {
  const path = scratch.at('file');
  writeFileSync(path, content);
  return path;
}

async function contentAt(path: NativePath, options = FOLLOW, from = files): Promise<string> {
  const content = await from.readFile(path, options);
  try {
    const buffer = Buffer.alloc(content.size + 10);
    return buffer.toString('latin1', 0, await content.read(buffer));
  } finally {
    await content.close();
  }
}

test.each([
  ['an empty file', ''],
  ['a small file', 'content'],
  ['a large file', 'x'.repeat(INLINE_CLOSE_MAX_BYTES + 1)],
])('reads %s from the page cache without a thread, and closes it', async (_name, content) => {
  const path = fileOf(content);
  expect(await contentAt(path)).toBe(content);
  expect(await contentAt(path, NO_FOLLOW)).toBe(content);
  expect(ordinary.readFile).not.toHaveBeenCalled();
  await waitFor('the close', () => scratch.openFiles().length === 0);
});

test('reads and closes a small file when it is opened', async () => {
  const content = await files.readFile(fileOf('content'), FOLLOW);
  expect(scratch.openFiles()).toEqual([]);
  expect(content.size).toBe(7);
  const buffer = Buffer.alloc(10);
  expect([await content.read(buffer), await content.read(buffer)]).toEqual([7, 0]);
  expect(content.whole?.toString()).toBe('content');
  expect(calls.read).not.toHaveBeenCalled();
  await content.close();
});

test.each([
  ['grows while it is opened', '0123456789 and more'],
  ['shrinks while it is opened', '01'],
])('reads the current content of a small file that %s', async (_, then) => {
  const path = fileOf('0123456789');
  vi.mocked(calls.readSmall).mockImplementationOnce((...args) => {
    writeFileSync(path, then);
    return native.readSmall(...args);
  });
  expect(await contentAt(path)).toBe(then);
  expect(scratch.openFiles()).toEqual([]);
});

test('waits for content that is not cached, also in the middle of a file', async () => {
  const path = fileOf('0123456789'.repeat(2_000));
  const read = vi.mocked(calls.read);
  read.mockImplementationOnce((fd, buffer, start, position) =>
    native.read(fd, buffer.subarray(0, start + 4), start, position),
  );
  read.mockImplementationOnce(() => null);
  expect(await contentAt(path)).toBe('0123456789'.repeat(2_000));
  expect(ordinary.readFile).not.toHaveBeenCalled();
});

test('waits for the content of a small file that is not cached', async () => {
  const path = fileOf('0123456789');
  vi.mocked(calls.readSmall).mockImplementation(() => null);
  vi.mocked(calls.read).mockImplementation(() => null);
  expect(await contentAt(path)).toBe('0123456789');
  expect(ordinary.readFile).not.toHaveBeenCalled();
});

test('a handle for reading returns blocks, cached or not', async () => {
  const path = fileOf('0123456789');
  const file = await files.open(path, 'read');
  expect((await file.read(2, 3)).toString()).toBe('234');
  vi.mocked(calls.read).mockImplementationOnce(() => null);
  expect((await file.read(5, 3, Buffer.alloc(20))).toString()).toBe('567');
  expect((await file.read(8, 5)).toString()).toBe('89');
  expect((await file.read(10, 5)).length).toBe(0);
  await expect(file.write(0, Buffer.from('x'))).rejects.toThrow('(os error 9)');
  await file.close();
  expect(ordinary.open).not.toHaveBeenCalled();
  expect(scratch.openFiles()).toEqual([]);
});

test('forwards handles for writing', async () => {
  const path = fileOf('old');
  const file = await files.open(path, 'replace');
  await file.write(0, Buffer.from('new'));
  await file.close();
  expect(await contentAt(path)).toBe('new');
  expect(ordinary.open).toHaveBeenCalledOnce();
  expect(calls.openFile).toHaveBeenCalledOnce();
});

test('forwards failures', async () => {
  fileOf('x');
  mkdirSync(scratch.at('directory'));
  symlinkSync('file', scratch.at('link'));
  scratch.fifo('fifo');
  const paths = ['missing', 'directory', 'fifo', 'file/below', 'link', 'directory/../file', 'loop'];
  symlinkSync('loop', scratch.at('loop'));
  for (const path of [...paths, '/dev/null', '/proc/version', '/'].map((name) => scratch.at(name))) {
    for (const options of [FOLLOW, NO_FOLLOW]) {
      const expected = await outcome(contentAt(path, options, LOCAL_FILE_SYSTEM));
      expect([path, await outcome(contentAt(path, options))]).toEqual([path, expected]);
      const open = (from: FileSystem) => from.open(path, 'read', options).then((file) => file.close());
      expect([path, await outcome(open(files))]).toEqual([path, await outcome(open(LOCAL_FILE_SYSTEM))]);
      const metadata = (from: FileSystem) => outcome(from.getMetadata(path, options));
      expect([path, await metadata(files)]).toEqual([path, await metadata(LOCAL_FILE_SYSTEM)]);
    }
  }
  await waitFor('the closes', () => scratch.openFiles().length === 0);
});

test('forwards what is not a regular file', async () => {
  const fifo = scratch.fifo('fifo');
  ordinary.readFile.mockRejectedValueOnce(new Error('seen'));
  await expect(contentAt(fifo)).rejects.toThrow('seen');
  expect(scratch.openFiles()).toEqual([]);
});

test.each([FOLLOW, NO_FOLLOW])(
  'returns metadata from the cache without a thread, and closes the descriptor (%o)',
  async (options) => {
    const path = fileOf('content');
    utimesSync(path, -5, -5.5);
    for (const place of [path, scratch.at('.'), scratch.fifo('fifo')]) {
      const expected = await LOCAL_FILE_SYSTEM.getMetadata(place, options);
      expect(await files.getMetadata(place, options)).toEqual(expected);
    }
    expect(ordinary.getMetadata).not.toHaveBeenCalled();
    expect(scratch.openFiles()).toEqual([]);
  },
);

test('forwards the metadata of links', async () => {
  fileOf('content');
  symlinkSync('file', scratch.at('link'));
  expect(await files.getMetadata(scratch.at('link'), FOLLOW)).toMatchObject({ isSymlink: true, size: 7 });
  await expect(files.getMetadata(scratch.at('link'), NO_FOLLOW)).rejects.toThrow('symbolic link');
  expect(ordinary.getMetadata).toHaveBeenCalledTimes(2);
});

test('reports a missing file without a thread once the cache knows it', async () => {
  const path = scratch.at('missing');
  const asked = [
    () => files.getMetadata(path, FOLLOW),
    () => contentAt(path),
    () => files.open(path, 'read'),
  ];
  await outcome(LOCAL_FILE_SYSTEM.getMetadata(path, FOLLOW));
  for (const ask of asked) {
    await expect(ask()).rejects.toMatchObject({
      kind: 'notFound',
      message: 'No such file or directory (os error 2)',
    });
  }
  expect(ordinary.getMetadata).not.toHaveBeenCalled();
  expect(ordinary.readFile).not.toHaveBeenCalled();
  expect(ordinary.open).not.toHaveBeenCalled();
});

test('reads a file that is removed meanwhile to its end', async () => {
  const path = fileOf('content');
  const content = await files.readFile(path, FOLLOW);
  unlinkSync(path);
  const buffer = Buffer.alloc(10);
  expect(buffer.toString('latin1', 0, await content.read(buffer))).toBe('content');
  await content.close();
});

test('forwards everything while the calls are not loaded', async () => {
  const unready = pageCacheFileSystem(ordinary, () => null);
  expect(await contentAt(fileOf('content'), FOLLOW, unready)).toBe('content');
  expect(ordinary.readFile).toHaveBeenCalledOnce();
});
