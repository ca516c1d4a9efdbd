import { execFileSync, spawnSync } from 'node:child_process';
import {
  chmodSync,
  closeSync,
  constants,
  linkSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { OpenFile, OpenMode } from '../../../../src/files/file-system.ts';
import { openFile } from '../../../../src/files/local/open-file.ts';
import { nativePathOfText } from '../../../../src/files/native-path.ts';
import { descriptorsOf } from '../../../support/machine.ts';

let root: string;
let folder: string;
let made = 0;
beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), 'open-file-'));
});
beforeEach(() => {
  folder = join(root, `${++made}`);
  mkdirSync(folder);
});
afterAll(() => rmSync(root, { recursive: true }));

const at = (name: string) => join(folder, name);
const open = (path: string, mode: OpenMode): Promise<OpenFile> => openFile(nativePathOfText(path), mode);

async function errorOf(promise: Promise<unknown>): Promise<string> {
  return promise.then(
    () => expect.unreachable('it should have failed'),
    ({ kind, message }: { kind: string; message: string }) => `${kind}: ${message}`,
  );
}

function makeFifo(): string {
  execFileSync('mkfifo', [at('fifo')]);
  return at('fifo');
}

describe('read', () => {
  test('reads at any position, follows links, sees appended bytes, and survives the removal of the name', async () => {
    writeFileSync(at('f'), 'hello');
    symlinkSync('f', at('link'));
    const file = await open(at('link'), 'read');
    expect((await file.read(1, 3)).toString()).toBe('ell');
    expect((await file.read(4, 10)).toString()).toBe('o');
    expect((await file.read(5, 10)).length).toBe(0);
    writeFileSync(at('f'), ' you', { flag: 'a' });
    unlinkSync(at('f'));
    expect((await file.read(4, 10)).toString()).toBe('o you');
    await file.close();
  });

  test('reads files that the kernel generates to their end', async () => {
    const file = await open('/proc/kallsyms', 'read');
    expect((await file.read(0, 100_000)).length).toBe(100_000);
    await file.close();
  });

  test('does not allow writes', async () => {
    writeFileSync(at('f'), 'hello');
    const file = await open(at('f'), 'read');
    expect(await errorOf(file.write(0, Buffer.from('x')))).toBe('failed: Bad file descriptor (os error 9)');
    expect((await file.read(0, 5)).toString()).toBe('hello');
    await file.close();
  });

  test('returns nothing far beyond the end, and an error beyond the largest offset', async () => {
    writeFileSync(at('f'), 'hello');
    const file = await open(at('f'), 'read');
    for (const [offset, length] of [
      [2 ** 53 - 1, 1],
      [2 ** 53, 1_048_576],
      [2 ** 63 - 1024, 1023],
    ] as const) {
      expect((await file.read(offset, length)).length).toBe(0);
    }
    const invalid = 'refused: Invalid argument (os error 22)';
    expect(await errorOf(file.read(2 ** 63 - 1024, 1024))).toBe(invalid);
    expect(await errorOf(file.read(2 ** 64, 1))).toBe(invalid);
    await file.close();
  });

  test('never returns bytes for an offset that may have been rounded', async () => {
    const memory = mkdtempSync('/dev/shm/open-file-');
    const huge = join(memory, 'huge');
    try {
      // tmpfs allows sparse files of any size.
      expect(spawnSync('truncate', ['-s', `${2n ** 53n + 4096n}`, huge]).status).toBe(0);
      const file = await open(huge, 'read');
      expect(await errorOf(file.read(2 ** 53, 1))).toContain('too large to be exact');
      expect((await file.read(2 ** 53 - 2, 1)).length).toBe(1);
      expect((await file.read(2 ** 53 + 8192, 1)).length).toBe(0);
      await file.close();
    } finally {
      rmSync(memory, { recursive: true });
    }
  });
});

describe('replace', () => {
  test('truncates the file immediately and writes in place, in any order', async () => {
    writeFileSync(at('f'), 'old content');
    chmodSync(at('f'), 0o640);
    linkSync(at('f'), at('other'));
    symlinkSync('f', at('link'));
    const before = statSync(at('f'));
    const file = await open(at('link'), 'replace');
    expect(statSync(at('f')).size).toBe(0);
    await file.write(10, Buffer.from('Z'));
    await file.write(0, Buffer.from('NEW'));
    expect(readFileSync(at('other')).toString('latin1')).toBe(`NEW${'\0'.repeat(7)}Z`);
    await file.close();
    expect(statSync(at('f'))).toMatchObject({ ino: before.ino, mode: before.mode });
  });

  test('creates a file, also at a dangling link, and keeps what was written when it is discarded', async () => {
    symlinkSync('fresh', at('link'));
    const file = await open(at('link'), 'replace');
    expect(statSync(at('fresh')).mode & 0o777).toBe(0o666 & ~process.umask());
    await file.write(0, Buffer.from('kept'));
    await file.discard();
    expect(readFileSync(at('fresh'), 'utf8')).toBe('kept');
  });

  test('does not allow reads', async () => {
    const file = await open(at('f'), 'replace');
    expect(await errorOf(file.read(0, 1))).toBe('failed: Bad file descriptor (os error 9)');
    await file.close();
  });
});

describe.each(['replace', 'atomicReplace'] as const)('%s rejects', (mode) => {
  test.each([
    ['a directory', '/', 'failed: Is a directory (os error 21)'],
    ['a device', '/dev/null', 'refused: path `/dev/null` is not a file'],
    ['a path below a file', '/proc/version/x', 'failed: Not a directory (os error 20)'],
    ['a path below a missing directory', '/nowhere/x', 'notFound: No such file or directory (os error 2)'],
  ])('%s', async (_, path, message) => {
    expect(await errorOf(open(path, mode))).toBe(message);
  });

  test('a loop of links', async () => {
    symlinkSync('loop', at('loop'));
    expect(await errorOf(open(at('loop'), mode))).toBe('failed: Symbolic link loop (os error 40)');
  });

  test('a link into a missing directory', async () => {
    symlinkSync('nowhere/x', at('link'));
    expect(await errorOf(open(at('link'), mode))).toBe('notFound: No such file or directory (os error 2)');
  });

  test('a link that names a missing directory', async () => {
    symlinkSync('fresh/', at('link'));
    expect(await errorOf(open(at('link'), mode))).toBe('failed: Is a directory (os error 21)');
  });

  test('a FIFO with a reader', async () => {
    const reader = openSync(makeFifo(), constants.O_RDONLY | constants.O_NONBLOCK);
    expect(await errorOf(open(at('fifo'), mode))).toBe(`refused: path \`${at('fifo')}\` is not a file`);
    closeSync(reader);
  });
});

test('rejects a FIFO without a reader without waiting', async () => {
  makeFifo();
  expect(await errorOf(open(at('fifo'), 'replace'))).toBe('failed: No such device or address (os error 6)');
  expect(await errorOf(open(at('fifo'), 'atomicReplace'))).toContain('is not a file');
  expect(await errorOf(open(at('fifo'), 'read'))).toContain('is not a file');
});

test('leaves no descriptor open, neither of files nor of rejected paths', async () => {
  writeFileSync(at('f'), 'hello');
  for (const mode of ['read', 'replace', 'atomicReplace'] as const) {
    await (await open(at('f'), mode)).close();
    await (await open(at('f'), mode)).discard();
    await errorOf(open('/dev/full', mode));
  }
  expect(
    descriptorsOf(process.pid).filter((path) => path.startsWith(folder) || path === '/dev/full'),
  ).toEqual([]);
});
