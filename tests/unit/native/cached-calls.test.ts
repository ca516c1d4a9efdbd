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

beforeEach(async () => {
  // No sandbox mounts anything there: while one covers a directory, as others do with /tmp, nobody finds anything below it in memory.
  folder = mkdtempSync('/var/tmp/cached-calls-');
  const { openPath, openFile, readSmall, read } = await loadCachedCalls();
  calls = {
    openPath: (...args) => openedAtLast(() => openPath(...args)),
    openFile: (...args) => openedAtLast(() => openFile(...args)),
    readSmall,
    read,
  };
});

/** The system may say that it would have to wait when somebody mounts something at the same moment. */
function openedAtLast(open: () => ReturnType<CachedCalls['openPath']>): ReturnType<CachedCalls['openPath']> {
  for (let attempt = 0; attempt < 1_000; attempt++) {
    const fd = open();
    if (fd !== null) return fd;
  }
  return null;
}

afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

describe('a path', () => {
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

  test('that was just used is found, also one that is not UTF-8', () => {
    const file = join(folder, 'file');
    writeFileSync(file, 'x');
    expect(inodeOf(file)).toBe(realInode(file));
    const odd = Buffer.concat([Buffer.from(`${folder}/`), Buffer.of(0xff)]);
    writeFileSync(odd, 'y');
    expect(inodeOf(odd.toString('latin1'))).not.toBeNull();
  });

  test('through links is found where links are followed, and only there', () => {
    writeFileSync(join(folder, 'file'), 'x');
    symlinkSync('file', join(folder, 'link'));
    symlinkSync(folder, join(folder, 'above'));
    // The first to follow a new link has to note that it was followed, which nobody can without waiting.
    const inAnHour = Date.now() / 1_000 + 3_600;
    for (const link of ['link', 'above']) lutimesSync(join(folder, link), inAnHour, 0);
    for (const path of [join(folder, 'link'), join(folder, 'above', 'file')]) {
      expect(inodeOf(path)).toBe(realInode(path));
      expect(inodeOf(path, 'refused')).toBeNull();
    }
    expect(inodeOf(join(folder, 'file'), 'refused')).toBe(realInode(join(folder, 'file')));
  });

  test('to a FIFO is named without opening it', () => {
    const fifo = join(folder, 'fifo');
    execFileSync('mkfifo', [fifo]);
    const fd = calls.openPath(fifo, 'followed') as number;
    // Who opens it for writing without waiting is told that nobody reads.
    expect(() => openSync(fifo, constants.O_WRONLY | constants.O_NONBLOCK)).toThrow('ENXIO');
    closeSync(fd);
  });

  test('behind a mount point, or through a file, is left to others', () => {
    expect(calls.openPath('/proc/self/status', 'followed')).toBeNull();
    symlinkSync('/proc/self/status', join(folder, 'away'));
    expect(calls.openPath(join(folder, 'away'), 'followed')).toBeNull();
    writeFileSync(join(folder, 'file'), 'x');
    expect(calls.openPath(join(folder, 'file/below'), 'followed')).toBeNull();
  });

  test('that ends in a link is found as that where the end is kept', () => {
    writeFileSync(join(folder, 'file'), 'x');
    symlinkSync('file', join(folder, 'link'));
    expect(inodeOf(join(folder, 'link'), 'endKept')).toBe(lstatSync(join(folder, 'link')).ino);
    expect(inodeOf(join(folder, 'file'), 'endKept')).toBe(realInode(join(folder, 'file')));
  });

  test('to nothing is known as that when somebody has looked before, until there is something', () => {
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

describe('a file that is opened', () => {
  test('can be read', () => {
    writeFileSync(join(folder, 'file'), 'x');
    const fd = calls.openFile(join(folder, 'file'), 'refused') as number;
    expect(readFileSync(fd, 'utf8')).toBe('x');
    expect(() => writeSync(fd, 'y')).toThrow('EBADF');
    closeSync(fd);
  });

  test('is not waited for', () => {
    execFileSync('mkfifo', [join(folder, 'fifo')]);
    const fd = calls.openFile(join(folder, 'fifo'), 'followed') as number;
    expect(fstatSync(fd).isFIFO()).toBe(true);
    closeSync(fd);
  });

  test('is no device, and behind no link that is not to be followed', () => {
    symlinkSync('/dev/null', join(folder, 'device'));
    expect(calls.openFile('/dev/null', 'followed')).toBeNull();
    expect(calls.openFile(join(folder, 'device'), 'followed')).toBeNull();
    writeFileSync(join(folder, 'file'), 'x');
    symlinkSync('file', join(folder, 'link'));
    expect(calls.openFile(join(folder, 'link'), 'refused')).toBeNull();
  });

  test('is missing when somebody has found out', () => {
    expect(() => lstatSync(join(folder, 'missing'))).toThrow('ENOENT');
    expect(calls.openFile(join(folder, 'missing'), 'followed')).toBe('missing');
  });
});

test('nothing stays open', () => {
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

  test('gives what is in memory, from any position into any place', () => {
    const fd = opened(Buffer.from('0123456789'));
    const buffer = Buffer.alloc(12, '.').subarray(2);
    expect(calls.read(fd, buffer, 3, 4)).toBe(6);
    expect(buffer.toString()).toBe('...456789.');
    expect(calls.read(fd, buffer, 0, 10)).toBe(0);
    expect(calls.read(fd, buffer.subarray(0, 2), 0, 1)).toBe(2);
    expect(buffer.toString('latin1', 0, 2)).toBe('12');
    closeSync(fd);
  });

  test('gives all of a small file, if it is as long as it should be', () => {
    const fd = opened(Buffer.from('0123456789'));
    const first = calls.readSmall(fd, 10);
    expect([9, 11].map((size) => calls.readSmall(fd, size))).toEqual([null, null]);
    const other = opened(Buffer.from('other'));
    expect(calls.readSmall(other, 5)?.toString()).toBe('other');
    // Each has memory of its own.
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
    // The system is asked to forget the file, and does so when nobody else has to do with its pages.
    await waitFor('a read that would have to wait', () => {
      execFileSync('dd', [`if=${join(folder, 'file')}`, 'iflag=nocache', 'count=0', 'status=none']);
      return calls.read(fd, buffer, 0, 0) === null;
    });
    readSync(fd, buffer, 0, buffer.length, 0);
    expect(calls.read(fd, buffer, 0, 0)).toBe(100_000);
    closeSync(fd);
  });

  test('gives nothing where there is nothing to read', () => {
    const fd = opened(Buffer.from('x'));
    closeSync(fd);
    expect(calls.read(fd, Buffer.alloc(1), 0, 0)).toBeNull();
    const directory = openSync(folder, 'r');
    expect(calls.read(directory, Buffer.alloc(1), 0, 0)).toBeNull();
    closeSync(directory);
  });
});
