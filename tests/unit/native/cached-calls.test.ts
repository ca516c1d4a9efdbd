import { execFileSync } from 'node:child_process';
import {
  closeSync,
  constants,
  fstatSync,
  fsyncSync,
  lstatSync,
  lutimesSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type CachedCalls, type Links, loadCachedCalls } from '../../../src/native/cached-calls.ts';
import { waitFor } from '../../support/wait-for.ts';

let folder: string;
let calls: CachedCalls;
/** Whether the kernel has an answer for the folder itself. */
let isFolderKnown: () => boolean;

beforeEach(async () => {
  // Not /tmp: while a sandbox of another test mounts over a directory, the cache has no answer for paths below it.
  folder = mkdtempSync('/var/tmp/cached-calls-');
  const { openPath, openFile, readSmall, read } = await loadCachedCalls();
  isFolderKnown = () => {
    const fd = openPath(folder, 'followed');
    if (typeof fd === 'number') closeSync(fd);
    return fd !== null;
  };
  calls = {
    openPath: (...args) => openWithRetry(() => openPath(...args)),
    openFile: (...args) => openWithRetry(() => openFile(...args)),
    readSmall,
    read,
  };
});

/**
 * The kernel reports that it would block while another process mounts something, and while a sandbox of another test has a mount on a
 * directory above. Then it has no answer for the folder of the test either.
 */
function openWithRetry(open: () => ReturnType<CachedCalls['openPath']>): ReturnType<CachedCalls['openPath']> {
  const deadline = performance.now() + MOUNTS_TIMEOUT_MS;
  for (let attempt = 0; attempt < 1_000; attempt++) {
    const fd = open();
    if (fd !== null) return fd;
    if (isFolderKnown()) continue;
    if (performance.now() > deadline) break;
    Atomics.wait(SLEEPER, 0, 0, 5);
    attempt = 0;
  }
  return null;
}

const MOUNTS_TIMEOUT_MS = 30_000;
const SLEEPER = new Int32Array(new SharedArrayBuffer(4));

afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

describe('openPath', () => {
  const inodeOf = (path: string, links: Links = 'followed'): number | 'missing' | null => {
    const fd = calls.openPath(path, links);
    if (typeof fd !== 'number') return fd;
    try {
      return fstatSync(fd).ino;
    } finally {
      closeSync(fd);
    }
  };
  const realInode = (path: string): number => {
    const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      return fstatSync(fd).ino;
    } finally {
      closeSync(fd);
    }
  };

  test('finds a path that was just used, also one that is not UTF-8', () => {
    const file = join(folder, 'file');
    writeFileSync(file, 'x');
    expect(inodeOf(file)).toBe(realInode(file));
    const odd = Buffer.concat([Buffer.from(`${folder}/`), Buffer.of(0xff)]);
    writeFileSync(odd, 'y');
    expect(inodeOf(odd.toString('latin1'))).not.toBeNull();
  });

  test('finds a path through links only where links are followed', () => {
    writeFileSync(join(folder, 'file'), 'x');
    symlinkSync('file', join(folder, 'link'));
    symlinkSync(folder, join(folder, 'above'));
    // Following a new link for the first time updates its access time, which may block. A time in the future prevents that.
    const inAnHour = Date.now() / 1_000 + 3_600;
    for (const link of ['link', 'above']) lutimesSync(join(folder, link), inAnHour, 0);
    for (const path of [join(folder, 'link'), join(folder, 'above', 'file')]) {
      expect(inodeOf(path)).toBe(realInode(path));
      expect(inodeOf(path, 'refused')).toBeNull();
    }
    expect(inodeOf(join(folder, 'file'), 'refused')).toBe(realInode(join(folder, 'file')));
  });

  test('opens no FIFO, only its path', () => {
    const fifo = join(folder, 'fifo');
    execFileSync('mkfifo', [fifo]);
    const fd = calls.openPath(fifo, 'followed') as number;
    // Opening a FIFO for writing without blocking fails when it has no reader.
    expect(() => openSync(fifo, constants.O_WRONLY | constants.O_NONBLOCK)).toThrow('ENXIO');
    closeSync(fd);
  });

  test('returns null behind a mount point and through a file', () => {
    expect(calls.openPath('/proc/self/status', 'followed')).toBeNull();
    symlinkSync('/proc/self/status', join(folder, 'away'));
    expect(calls.openPath(join(folder, 'away'), 'followed')).toBeNull();
    writeFileSync(join(folder, 'file'), 'x');
    expect(calls.openPath(join(folder, 'file/below'), 'followed')).toBeNull();
  });

  test('opens a link itself where the last link is kept', () => {
    writeFileSync(join(folder, 'file'), 'x');
    symlinkSync('file', join(folder, 'link'));
    expect(inodeOf(join(folder, 'link'), 'endKept')).toBe(lstatSync(join(folder, 'link')).ino);
    expect(inodeOf(join(folder, 'file'), 'endKept')).toBe(realInode(join(folder, 'file')));
  });

  test('reports a path as missing once the cache knows it, until it is created', () => {
    const path = join(folder, 'missing');
    expect(() => lstatSync(path)).toThrow('ENOENT');
    expect(inodeOf(path)).toBe('missing');
    writeFileSync(path, 'x');
    expect(inodeOf(path)).toBe(realInode(path));
    unlinkSync(path);
    expect(() => lstatSync(path)).toThrow('ENOENT');
    expect(inodeOf(path)).toBe('missing');
  });
});

describe('openFile', () => {
  test('returns a readable descriptor', () => {
    writeFileSync(join(folder, 'file'), 'x');
    const fd = calls.openFile(join(folder, 'file'), 'refused') as number;
    expect(readFileSync(fd, 'utf8')).toBe('x');
    expect(() => writeSync(fd, 'y')).toThrow('EBADF');
    closeSync(fd);
  });

  test('never blocks', () => {
    execFileSync('mkfifo', [join(folder, 'fifo')]);
    const fd = calls.openFile(join(folder, 'fifo'), 'followed') as number;
    expect(fstatSync(fd).isFIFO()).toBe(true);
    closeSync(fd);
  });

  test('opens no device, and no link that must not be followed', () => {
    symlinkSync('/dev/null', join(folder, 'device'));
    expect(calls.openFile('/dev/null', 'followed')).toBeNull();
    expect(calls.openFile(join(folder, 'device'), 'followed')).toBeNull();
    writeFileSync(join(folder, 'file'), 'x');
    symlinkSync('file', join(folder, 'link'));
    expect(calls.openFile(join(folder, 'link'), 'refused')).toBeNull();
  });

  test('reports a missing file once the cache knows it', () => {
    expect(() => lstatSync(join(folder, 'missing'))).toThrow('ENOENT');
    expect(calls.openFile(join(folder, 'missing'), 'followed')).toBe('missing');
  });
});

test('leaves nothing open', () => {
  const before = readdirSync('/proc/self/fd').length;
  writeFileSync(join(folder, 'file'), 'x');
  for (let round = 0; round < 20; round++) {
    calls.openPath(join(folder, 'missing'), 'followed');
    closeSync(calls.openPath(join(folder, 'file'), 'followed') as number);
  }
  expect(readdirSync('/proc/self/fd').length).toBe(before);
});

describe('reading', () => {
  const opened = (content: Buffer): number => {
    rmSync(join(folder, 'file'), { force: true });
    writeFileSync(join(folder, 'file'), content);
    return openSync(join(folder, 'file'), 'r');
  };

  test('returns cached bytes, from any position to any offset', () => {
    const fd = opened(Buffer.from('0123456789'));
    const buffer = Buffer.alloc(12, '.').subarray(2);
    expect(calls.read(fd, buffer, 3, 4)).toBe(6);
    expect(buffer.toString()).toBe('...456789.');
    expect(calls.read(fd, buffer, 0, 10)).toBe(0);
    expect(calls.read(fd, buffer.subarray(0, 2), 0, 1)).toBe(2);
    expect(buffer.toString('latin1', 0, 2)).toBe('12');
    closeSync(fd);
  });

  test('returns a small file if its length is as expected', () => {
    const fd = opened(Buffer.from('0123456789'));
    const first = calls.readSmall(fd, 10);
    expect([9, 11].map((size) => calls.readSmall(fd, size))).toEqual([null, null]);
    const other = opened(Buffer.from('other'));
    expect(calls.readSmall(other, 5)?.toString()).toBe('other');
    // Each result has its own buffer.
    expect(first?.toString()).toBe('0123456789');
    const largest = opened(Buffer.alloc(16 * 1024, 'x'));
    expect(calls.readSmall(largest, 16 * 1024)).toHaveLength(16 * 1024);
    const larger = opened(Buffer.alloc(16 * 1024 + 1, 'x'));
    expect(calls.readSmall(larger, 16 * 1024 + 1)).toBeNull();
    for (const each of [fd, other, largest, larger]) closeSync(each);
    expect(calls.readSmall(fd, 10)).toBeNull();
  });

  test('does not wait for the disk', async () => {
    const fd = opened(Buffer.alloc(100_000, 'x'));
    const buffer = Buffer.alloc(100_000);
    fsyncSync(fd);
    // Asks the kernel to drop the file from the cache, which it does when no other process uses its pages.
    await waitFor('a read that would have to wait', () => {
      execFileSync('dd', [`if=${join(folder, 'file')}`, 'iflag=nocache', 'count=0', 'status=none']);
      return calls.read(fd, buffer, 0, 0) === null;
    });
    readSync(fd, buffer, 0, buffer.length, 0);
    expect(calls.read(fd, buffer, 0, 0)).toBe(100_000);
    closeSync(fd);
  });

  test('returns null where there is nothing to read', () => {
    const fd = opened(Buffer.from('x'));
    closeSync(fd);
    expect(calls.read(fd, Buffer.alloc(1), 0, 0)).toBeNull();
    const directory = openSync(folder, 'r');
    expect(calls.read(directory, Buffer.alloc(1), 0, 0)).toBeNull();
    closeSync(directory);
  });
});
