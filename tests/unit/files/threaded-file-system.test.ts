import { execFileSync } from 'node:child_process';
import {
  closeSync,
  constants,
  lstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  readSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, type Mock, test, vi } from 'vitest';
import type { FileSystem, Waiting } from '../../../src/files/file-system.ts';
import { FileThreads } from '../../../src/files/file-threads.ts';
import {
  LARGE_WALK_ENTRIES,
  MANY_SMALL_FILES,
  SMALL_FILE_BYTES,
  SMALL_WRITE_BYTES,
} from '../../../src/files/limits.ts';
import { LOCAL_FILE_SYSTEM } from '../../../src/files/local/local-file-system.ts';
import { type NativePath, nativePathOfText } from '../../../src/files/native-path.ts';
import { EncodedWalk } from '../../../src/files/thread/encoded-walk.ts';
import { threadedFileSystem } from '../../../src/files/threaded-file-system.ts';
import { waitFor } from '../../support/wait-for.ts';
import { outcome, Scratch } from './local/scratch.ts';
import { EVERYTHING } from './walk-options.ts';

const scratch = new Scratch();
const FOLLOW = { followSymlinks: true };
const NEVER = new AbortController().signal;
const NO_ABORT: Waiting = { signal: NEVER, onWait: () => {} };

const threads = new FileThreads(undefined, 60_000);
const run = vi.spyOn(threads, 'run');
const write = vi.spyOn(threads, 'write');
const files = threadedFileSystem({ threads, prepare: () => {} });

beforeAll(async () => {
  threads.prepare();
  await waitFor('a thread', () => threads.run({ kind: 'read', path: nativePathOfText('/proc/version') }));
});

afterAll(async () => {
  // An aborted job terminates its thread.
  const unwanted = new AbortController();
  const walk = files.walk(nativePathOfText('/'), EVERYTHING, unwanted.signal);
  unwanted.abort(new Error('over'));
  await expect(walk).rejects.toThrow('over');
  await waitFor('the end of the thread', () => threads.count === 0);
});

/** The result of the last job. */
function byThread(asked: Mock = run): unknown {
  return asked.mock.results.at(-1)!.value;
}

async function contentOf(from: FileSystem, path: NativePath): Promise<{ size: number; bytes: string }> {
  const content = await from.readFile(path, FOLLOW);
  const pieces: Buffer[] = [];
  for (;;) {
    const piece = Buffer.alloc(10_000);
    const length = await content.read(piece);
    pieces.push(piece.subarray(0, length));
    if (length < piece.length) break;
  }
  await content.close();
  return { size: content.size, bytes: Buffer.concat(pieces).toString('latin1') };
}

test.each([0, 1, 1_000, 10_000, SMALL_FILE_BYTES - 1, SMALL_FILE_BYTES, SMALL_FILE_BYTES + 1, 100_000])(
  'reads a file of %i bytes like the local file system',
  async (size) => {
    const bytes = Buffer.from(Uint8Array.from({ length: size }, (_, index) => index % 251));
    writeFileSync(scratch.at('file'), bytes);
    expect(await contentOf(files, scratch.at('file'))).toEqual({ size, bytes: bytes.toString('latin1') });
    const isSmall = size > 0 && size <= SMALL_FILE_BYTES;
    expect(await byThread()).toMatchObject({ fd: isSmall ? null : expect.any(Number) });
  },
);

test('reads a file that the kernel generates to its end', async () => {
  const path = nativePathOfText('/proc/version');
  expect(await contentOf(files, path)).toEqual({ size: 0, bytes: readFileSync(path, 'latin1') });
});

test.each(['missing', 'dir', 'dir/sub/f/x', 'loop', '/dev/null'])(
  'rejects reading %s like the local file system',
  async (name) => {
    scratch.populate();
    const expected = await outcome(LOCAL_FILE_SYSTEM.readFile(scratch.at(name), FOLLOW));
    expect(await outcome(files.readFile(scratch.at(name), FOLLOW))).toEqual(expected);
    await expect(byThread()).rejects.toThrow();
  },
);

test('a thread writes a small file in place', async () => {
  writeFileSync(scratch.at('file'), 'x'.repeat(5_000), { mode: 0o640 });
  const { ino } = lstatSync(scratch.at('file'));
  symlinkSync('file', scratch.at('link'));
  for (const text of ['longer than nothing', 'shorter', '', 'é\u0000']) {
    await files.writeFile(scratch.at('link'), Buffer.from(text), FOLLOW, NO_ABORT);
    expect(await byThread(write)).toBe('written');
    expect(readFileSync(scratch.at('file'), 'utf8')).toBe(text);
  }
  expect(lstatSync(scratch.at('file'))).toMatchObject({ ino, mode: 0o100640 });
});

test('a new file gets the default mode, and large files do not use a thread', async () => {
  await files.writeFile(scratch.at('new'), Buffer.from('new'), FOLLOW, NO_ABORT);
  expect(lstatSync(scratch.at('new')).mode & 0o777).toBe(0o666 & ~process.umask());
  write.mockClear();
  const large = Buffer.alloc(SMALL_WRITE_BYTES + 1, 'y');
  await files.writeFile(scratch.at('new'), large, FOLLOW, NO_ABORT);
  expect(readFileSync(scratch.at('new')).equals(large)).toBe(true);
  expect(write).not.toHaveBeenCalled();
});

test.each(['dir', 'a.txt/x', 'missing/x', 'loop'])(
  'fails to write %s like the local file system',
  async (name) => {
    scratch.populate();
    const written = (to: FileSystem) =>
      outcome(to.writeFile(scratch.at(name), Buffer.from('x'), FOLLOW, NO_ABORT));
    expect(await written(files)).toEqual(await written(LOCAL_FILE_SYSTEM));
  },
);

// A full disk needs a mount.
test.runIf(process.getuid?.() === 0)('a failed write leaves no old content behind', async () => {
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=8k', 'none', mountPoint()]);
  try {
    writeFileSync(scratch.at('full/file'), 'o'.repeat(5_000));
    writeFileSync(scratch.at('full/other'), '');
    const writing = files.writeFile(scratch.at('full/file'), Buffer.alloc(12_000, 'n'), FOLLOW, NO_ABORT);
    expect(await outcome(writing)).toMatch(/os error 28/);
    expect(readFileSync(scratch.at('full/file'), 'latin1')).toMatch(/^n+$/);
  } finally {
    execFileSync('umount', [scratch.at('full')]);
  }
});

function mountPoint(): string {
  mkdirSync(scratch.at('full'));
  return scratch.at('full');
}

test('waits for the reader of a FIFO, which receives everything', async () => {
  const fifo = scratch.fifo('fifo');
  const waits = vi.fn();
  const writing = files.writeFile(fifo, Buffer.from('through'), FOLLOW, { signal: NEVER, onWait: waits });
  await waitFor('the write to wait', () => waits.mock.calls.length === 1);
  expect(await byThread(write)).toBe('notOpened');
  const reader = openSync(fifo, constants.O_RDONLY | constants.O_NONBLOCK);
  await writing;
  expect(takeAll(reader)).toBe('through');
});

test('the thread opens a FIFO that has a reader, and the event loop writes it', async () => {
  const fifo = scratch.fifo('fifo');
  const reader = openSync(fifo, constants.O_RDONLY | constants.O_NONBLOCK);
  await files.writeFile(fifo, Buffer.from('once'), FOLLOW, NO_ABORT);
  expect(await byThread(write)).toEqual(expect.any(Number));
  expect(takeAll(reader)).toBe('once');
});

/** The content of a FIFO whose writers have closed it. */
function takeAll(fd: number): string {
  const bytes = Buffer.alloc(100);
  const length = readSync(fd, bytes);
  expect(readSync(fd, Buffer.alloc(1))).toBe(0);
  closeSync(fd);
  return bytes.toString('utf8', 0, length);
}

test.each([
  {},
  { maxEntries: 4 },
  { maxDepth: 0 },
  { maxDirectories: 2 },
  { followDirectorySymlinks: true },
  { pruneHiddenDirectories: true },
])('a walk returns the same result as without threads (%o)', async (limits) => {
  scratch.populate();
  mkdirSync(scratch.at('.hidden/below'), { recursive: true });
  writeFileSync(Buffer.from(join(scratch.at('dir'), 'b\xff"\\ ?'), 'latin1'), '');
  const walk = (from: FileSystem) => from.walk(scratch.at('.'), { ...EVERYTHING, ...limits }, NEVER);
  const walked = await walk(files);
  expect(walked).toBeInstanceOf(EncodedWalk);
  const { entries, errors, truncated } = walked;
  expect({ entries, errors, truncated }).toEqual(await walk(LOCAL_FILE_SYSTEM));
});

test.each([['missing'], ['a.txt'], ['lfile']])('a walk of %s ends like one without threads', async (name) => {
  scratch.populate();
  const walk = (from: FileSystem) =>
    outcome(from.walk(scratch.at(name), EVERYTHING, NEVER).then(({ entries }) => entries.length));
  expect(await walk(files)).toEqual(await walk(LOCAL_FILE_SYSTEM));
});

test('operations that do not follow links use no thread', async () => {
  writeFileSync(scratch.at('file'), 'x');
  run.mockClear();
  write.mockClear();
  const noFollow = { followSymlinks: false };
  await (await files.readFile(scratch.at('file'), noFollow)).close();
  await files.writeFile(scratch.at('file'), Buffer.from('y'), noFollow, NO_ABORT);
  await files.walk(scratch.at('.'), { ...EVERYTHING, ...noFollow }, NEVER);
  expect(run).not.toHaveBeenCalled();
  expect(write).not.toHaveBeenCalled();
});

test('threads are started after a large walk and after many small files, not before', async () => {
  const prepare = vi.fn();
  const waiting = threadedFileSystem({ threads: null, prepare });
  for (let index = 0; index < LARGE_WALK_ENTRIES - 1; index++) writeFileSync(scratch.at(`${index}`), '');
  await waiting.walk(scratch.at('.'), EVERYTHING, NEVER);
  expect(prepare).not.toHaveBeenCalled();
  writeFileSync(scratch.at('one more'), 'x');
  await waiting.walk(scratch.at('.'), EVERYTHING, NEVER);
  expect(prepare).toHaveBeenCalledTimes(1);

  for (let index = 0; index < MANY_SMALL_FILES / 2; index++) {
    await (await waiting.readFile(scratch.at('one more'), FOLLOW)).close();
    if (index > 0) await waiting.writeFile(scratch.at('one more'), Buffer.from('y'), FOLLOW, NO_ABORT);
  }
  expect(prepare).toHaveBeenCalledTimes(1);
  await waiting.writeFile(scratch.at('one more'), Buffer.from('y'), FOLLOW, NO_ABORT);
  expect(prepare).toHaveBeenCalledTimes(2);
});
