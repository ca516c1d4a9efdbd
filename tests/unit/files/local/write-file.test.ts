import { execFile } from 'node:child_process';
import {
  chmodSync,
  closeSync,
  constants,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  readSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { promisify } from 'node:util';
import { expect, onTestFinished, test, vi } from 'vitest';
import { writeFile } from '../../../../src/files/local/write-file.ts';
import {
  IS_A_DIRECTORY,
  LINK_LOOP,
  LONG_NAME,
  NO_DEVICE,
  NO_ENTRY,
  NOT_A_DIRECTORY,
  outcome,
  Scratch,
  TOO_LONG,
} from './scratch.ts';

const scratch = new Scratch();
const run = promisify(execFile);
const FOLLOW = { followSymlinks: true };
const NO_FOLLOW = { followSymlinks: false };
const BOTH = [FOLLOW, NO_FOLLOW];
const GIVEN_UP = 'failed: the write was cancelled while the file was not ready';

/** A wait that can be observed and aborted. */
function waiter() {
  const abort = new AbortController();
  let onWait!: () => void;
  const waits = new Promise<void>((resolve) => {
    onWait = vi.fn(resolve);
  });
  return { signal: abort.signal, onWait, waits, giveUp: () => abort.abort() };
}

/** Writes where no wait is needed. */
async function write(path: string, bytes: Uint8Array | string, options = FOLLOW): Promise<void> {
  const waiting = waiter();
  try {
    await writeFile(scratch.at(path), Buffer.from(bytes as string), options, waiting);
  } finally {
    expect(waiting.onWait).not.toHaveBeenCalled();
  }
}

test.each(BOTH)('a new file has the content and the default mode (%o)', async (options) => {
  writeFileSync(scratch.at('usual'), '');
  await write('new', 'hello', options);
  expect(readFileSync(scratch.at('new'), 'utf8')).toBe('hello');
  expect(lstatSync(scratch.at('new')).mode).toBe(lstatSync(scratch.at('usual')).mode);
  expect(scratch.openFiles()).toEqual([]);
});

test.each(BOTH)('a file keeps its inode, its hard links and its mode (%o)', async (options) => {
  writeFileSync(scratch.at('a'), 'old content');
  chmodSync(scratch.at('a'), 0o751);
  linkSync(scratch.at('a'), scratch.at('other name'));
  await write('a', 'new', options);
  expect(readFileSync(scratch.at('other name'), 'utf8')).toBe('new');
  expect(lstatSync(scratch.at('a')).mode & 0o777).toBe(0o751);
});

test.each(['', 'short', 'just as long', 'longer than before it was'])(
  'replaces any content: %j',
  async (content) => {
    writeFileSync(scratch.at('a'), 'content here');
    await write('a', content);
    expect(readFileSync(scratch.at('a'), 'utf8')).toBe(content);
  },
);

test('writing nothing to an empty file is a modification', async () => {
  writeFileSync(scratch.at('a'), '');
  await run('touch', ['-d', '2001-01-01', scratch.at('a')]);
  await write('a', '');
  expect(statSync(scratch.at('a')).mtime.getFullYear()).toBeGreaterThan(2001);
});

test('a reader sees the old or the new content, never an empty file', async () => {
  writeFileSync(scratch.at('a'), 'x');
  for (let round = 0; round < 100; round++) {
    let done = false;
    const writing = write('a', 'x'.repeat(1 + (round % 7))).finally(() => {
      done = true;
    });
    while (!done) {
      expect(readFileSync(scratch.at('a'), 'utf8')).toMatch(/^x+$/);
      await nextTurn();
    }
    await writing;
  }
});

test.each([
  ['lfile', 'done', LINK_LOOP],
  ['ldir/new', 'done', NOT_A_DIRECTORY],
  ['dir', IS_A_DIRECTORY, IS_A_DIRECTORY],
  ['ldir', IS_A_DIRECTORY, LINK_LOOP],
  ['dangling', 'done', LINK_LOOP],
  ['loop', LINK_LOOP, LINK_LOOP],
  ['missing/x', NO_ENTRY, NO_ENTRY],
  ['a.txt/x', NOT_A_DIRECTORY, NOT_A_DIRECTORY],
  ['/dev/null', 'done', 'refused: path is not a regular file'],
  ['/dev/full', 'failed: No space left on device (os error 28)', 'refused: path is not a regular file'],
  ['/', IS_A_DIRECTORY, 'refused: path must name an entry'],
  [LONG_NAME, TOO_LONG, TOO_LONG],
])('%s: %s; without following: %s', async (path, following, notFollowing) => {
  scratch.populate();
  expect(await outcome(write(path, 'new', NO_FOLLOW))).toBe(notFollowing);
  expect(readFileSync(scratch.at('a.txt'), 'utf8')).toBe('hello');
  expect(existsSync(scratch.at('nowhere'))).toBe(false);
  expect(await outcome(write(path, 'new', FOLLOW))).toBe(following);
  if (following === 'done' && !path.startsWith('/'))
    expect(readFileSync(scratch.at(path), 'utf8')).toBe('new');
  expect(scratch.openFiles()).toEqual([]);
});

test.each(BOTH)('does not wait for a socket (%o)', async (options) => {
  const server = createServer().listen(scratch.at('socket'));
  onTestFinished(() => void server.close());
  await new Promise((resolve) => server.once('listening', resolve));
  expect(await outcome(write('socket', 'x', options))).toBe(NO_DEVICE);
});

test('neither waits for nor writes a FIFO where links are not followed', async () => {
  const path = scratch.fifo('fifo');
  expect(await outcome(write('fifo', 'x', NO_FOLLOW))).toBe(NO_DEVICE);
  const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  expect(await outcome(write('fifo', 'x', NO_FOLLOW))).toBe('refused: path is not a regular file');
  closeSync(reader);
});

test('writes everything to a FIFO when a reader opens it, whatever the pipe holds', async () => {
  const path = scratch.fifo('fifo');
  const bytes = Buffer.alloc(1_000_000, 'abcdefg');
  const waiting = waiter();
  const writing = writeFile(path, bytes, FOLLOW, waiting);
  await waiting.waits;
  const { stdout } = await run('cat', [path], { encoding: 'buffer', maxBuffer: bytes.length });
  await writing;
  expect(stdout.equals(bytes)).toBe(true);
  expect(waiting.onWait).toHaveBeenCalledTimes(1);
});

test('waits for a full FIFO', async () => {
  const path = scratch.fifo('fifo');
  const reader = openSync(path, constants.O_RDWR | constants.O_NONBLOCK);
  onTestFinished(() => closeSync(reader));
  const bytes = Buffer.alloc(100_000, 'abc');
  const waiting = waiter();
  const writing = writeFile(path, bytes, FOLLOW, waiting);
  await waiting.waits;
  const received = Buffer.alloc(bytes.length);
  let length = 0;
  while (length < bytes.length) {
    length += readAvailable(reader, received.subarray(length));
    await nextTurn();
  }
  await writing;
  expect(received.equals(bytes)).toBe(true);
  expect(waiting.onWait).toHaveBeenCalledTimes(1);
});

test('fails when the reader closes the FIFO', async () => {
  const path = scratch.fifo('fifo');
  const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  const waiting = waiter();
  const writing = outcome(writeFile(path, Buffer.alloc(100_000), FOLLOW, waiting));
  await waiting.waits;
  closeSync(reader);
  expect(await writing).toBe('failed: Broken pipe (os error 32)');
});

test('ends the wait when the result is no longer needed', async () => {
  const path = scratch.fifo('fifo');
  const waiting = waiter();
  const writing = outcome(writeFile(path, Buffer.from('x'), FOLLOW, waiting));
  await waiting.waits;
  waiting.giveUp();
  expect(await writing).toBe(GIVEN_UP);
  expect(scratch.openFiles()).toEqual([]);
});

test('any number of waiting writes leaves threads for other work', async () => {
  mkdirSync(scratch.at('d'));
  const waits = Array.from({ length: 16 }, (_, index) => {
    const waiting = waiter();
    const path = scratch.fifo(`d/${index}`);
    return { waiting, writing: outcome(writeFile(path, Buffer.from('x'), FOLLOW, waiting)) };
  });
  await Promise.all(waits.map(({ waiting }) => waiting.waits));
  await write('a', 'hello');
  expect(readFileSync(scratch.at('a'), 'utf8')).toBe('hello');
  for (const { waiting } of waits) waiting.giveUp();
  expect(new Set(await Promise.all(waits.map(({ writing }) => writing)))).toEqual(new Set([GIVEN_UP]));
});

/** Reads what a non-blocking descriptor has available. */
function readAvailable(fd: number, buffer: Buffer): number {
  try {
    return readSync(fd, buffer);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EAGAIN') return 0;
    throw error;
  }
}
