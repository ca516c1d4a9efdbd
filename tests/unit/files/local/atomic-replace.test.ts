import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  chownSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { Errno, systemError } from '../../../../src/files/errors.ts';
import type { OpenFile } from '../../../../src/files/file-system.ts';
import { MAX_COMPARED_BYTES } from '../../../../src/files/limits.ts';
import { openAtomicReplacement } from '../../../../src/files/local/atomic-replace.ts';
import { writeAt } from '../../../../src/files/local/positional-io.ts';
import { temporaryName } from '../../../../src/files/local/temporary-files.ts';
import { childPath, nativePathOfBytes, nativePathOfText } from '../../../../src/files/native-path.ts';

// Writes reach the disk; one of them can be made to fail.
vi.mock('../../../../src/files/local/positional-io.ts', async (original) => {
  const actual = await original<typeof import('../../../../src/files/local/positional-io.ts')>();
  return { ...actual, writeAt: vi.fn(actual.writeAt) };
});

const isRoot = process.getuid?.() === 0;
let root: string;
let folder: string;
let made = 0;
beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), 'atomic-replace-'));
  chmodSync(root, 0o755);
});
beforeEach(() => {
  folder = join(root, `${++made}`);
  mkdirSync(folder);
});
afterAll(() => rmSync(root, { recursive: true }));

const at = (name: string) => join(folder, name);
const replace = (path: string): Promise<OpenFile> => openAtomicReplacement(nativePathOfText(path));
const names = () => readdirSync(folder).sort();
const text = (path: string) => readFileSync(path, 'utf8');

async function replaceWith(path: string, content: string): Promise<void> {
  const file = await replace(path);
  await file.write(0, Buffer.from(content));
  await file.close();
}

async function errorOf(promise: Promise<unknown>): Promise<string> {
  return promise.then(
    () => expect.unreachable('it should have failed'),
    ({ kind, message }: { kind: string; message: string }) => `${kind}: ${message}`,
  );
}

describe('the new file', () => {
  test('replaces the old one on close, as a whole', async () => {
    writeFileSync(at('f'), 'old');
    const before = statSync(at('f'));
    const file = await replace(at('f'));
    await file.write(4, Buffer.from('content'));
    await file.write(0, Buffer.from('new '));
    expect(text(at('f'))).toBe('old');
    await file.close();
    expect(text(at('f'))).toBe('new content');
    expect(statSync(at('f')).ino).not.toBe(before.ino);
    expect(names()).toEqual(['f']);
  });

  test('can be the first of its name, and empty', async () => {
    const file = await replace(at('f'));
    expect(existsSync(at('f'))).toBe(false);
    await file.close();
    expect(statSync(at('f'))).toMatchObject({ size: 0 });
    expect(statSync(at('f')).mode & 0o7777).toBe(0o666 & ~process.umask());
    expect(names()).toEqual(['f']);
  });

  test('has a temporary name that identifies it and its creator', async () => {
    const file = await replace(at('notes.txt'));
    expect(names()).toEqual([
      expect.stringMatching(
        new RegExp(`^\\.notes\\.txt\\.exec-server-[0-9a-f]{8}-${process.pid}-\\d+-[0-9a-f]{8}\\.tmp$`),
      ),
    ]);
    await file.discard();
    expect(names()).toEqual([]);
  });

  test('can have the longest possible name, of any bytes', async () => {
    for (const name of ['n'.repeat(255), 'é'.repeat(127), '\xff'.repeat(255)]) {
      const bytes = name.startsWith('é') ? Buffer.from(name).toString('latin1') : name;
      const path = childPath(nativePathOfText(folder), bytes);
      const file = await openAtomicReplacement(nativePathOfBytes(path));
      await file.write(0, Buffer.from('x'));
      await file.close();
      expect(readdirSync(folder, 'latin1')).toContain(bytes);
    }
    expect(names()).toHaveLength(3);
  });

  // Only root can write to a setuid file without clearing the bit.
  test.each(isRoot ? [0o600, 0o751, 0o4755] : [0o600, 0o751])(
    'has the mode of the old one: %o',
    async (mode) => {
      writeFileSync(at('f'), 'old');
      chmodSync(at('f'), mode);
      await replaceWith(at('f'), 'new');
      expect(statSync(at('f')).mode & 0o7777).toBe(mode);
    },
  );

  test.runIf(isRoot)('has the owner and group of the old one', async () => {
    writeFileSync(at('f'), 'old');
    chownSync(at('f'), 1234, 2345);
    chmodSync(at('f'), 0o2750);
    await replaceWith(at('f'), 'new');
    expect(statSync(at('f'))).toMatchObject({ uid: 1234, gid: 2345 });
    expect(statSync(at('f')).mode & 0o7777).toBe(0o2750);
  });

  test.runIf(isRoot)(
    'grants nothing to another group and has no setuid bits when owner and group cannot be kept',
    async () => {
      writeFileSync(at('f'), 'old');
      chownSync(at('f'), 1234, 2345);
      chmodSync(at('f'), 0o6774);
      chownSync(folder, 4321, 4321);
      const groups = process.getgroups!();
      process.setgroups!([]);
      process.setegid!(4321);
      process.seteuid!(4321);
      try {
        await replaceWith(at('f'), 'new');
      } finally {
        process.seteuid!(0);
        process.setegid!(0);
        process.setgroups!(groups);
      }
      expect(text(at('f'))).toBe('new');
      expect(statSync(at('f'))).toMatchObject({ uid: 4321, gid: 4321 });
      expect(statSync(at('f')).mode & 0o7777).toBe(0o744);
    },
  );

  test('leaves other hard links of the old file alone', async () => {
    writeFileSync(at('f'), 'old');
    linkSync(at('f'), at('other'));
    await replaceWith(at('f'), 'new');
    expect([text(at('f')), text(at('other'))]).toEqual(['new', 'old']);
  });
});

describe('links', () => {
  test('stay, and their target is replaced in its directory', async () => {
    mkdirSync(at('real'));
    writeFileSync(at('real/f'), 'old');
    symlinkSync('real', at('way'));
    symlinkSync('way/../way/f', at('second'));
    symlinkSync(at('second'), at('first'));
    await replaceWith(at('first'), 'new');
    expect(text(at('real/f'))).toBe('new');
    expect(lstatSync(at('first')).isSymbolicLink()).toBe(true);
    expect(lstatSync(at('second')).isSymbolicLink()).toBe(true);
    expect([names(), readdirSync(at('real'))]).toEqual([['first', 'real', 'second', 'way'], ['f']]);
  });

  test('that dangle get a file as target', async () => {
    mkdirSync(at('real'));
    symlinkSync('real/fresh', at('link'));
    await replaceWith(at('link'), 'new');
    expect(text(at('real/fresh'))).toBe('new');
    expect(lstatSync(at('link')).isSymbolicLink()).toBe(true);
  });

  test('that change later do not change the target', async () => {
    mkdirSync(at('a'));
    mkdirSync(at('b'));
    symlinkSync('a', at('way'));
    const file = await replace(at('way/f'));
    rmSync(at('way'));
    symlinkSync('b', at('way'));
    await file.close();
    expect([readdirSync(at('a')), readdirSync(at('b'))]).toEqual([['f'], []]);
  });
});

describe('the old file stays and no temporary file is left', () => {
  test('when the new one is discarded', async () => {
    writeFileSync(at('f'), 'old');
    const file = await replace(at('f'));
    await file.write(0, Buffer.from('new'));
    await file.discard();
    expect([names(), text(at('f'))]).toEqual([['f'], 'old']);
  });

  test('when a write failed, even if the client closes the handle', async () => {
    writeFileSync(at('f'), 'old');
    const file = await replace(at('f'));
    await file.write(0, Buffer.from('new'));
    const message = 'failed: I/O error (os error 5)';
    vi.mocked(writeAt).mockRejectedValueOnce(systemError(Errno.EIO));
    expect(await errorOf(file.write(3, Buffer.from('er')))).toBe(message);
    await file.write(5, Buffer.from('!'));
    expect(await errorOf(file.close())).toBe(message);
    expect([names(), text(at('f'))]).toEqual([['f'], 'old']);
  });

  test('when something else has replaced it', async () => {
    const file = await replace(at('f'));
    mkdirSync(at('f'));
    expect(await errorOf(file.close())).toBe('failed: Is a directory (os error 21)');
    expect(names()).toEqual(['f']);
    expect(statSync(at('f')).isDirectory()).toBe(true);
  });

  test('when the temporary file is missing', async () => {
    writeFileSync(at('f'), 'old');
    const file = await replace(at('f'));
    for (const name of names()) if (name !== 'f') rmSync(at(name));
    expect(await errorOf(file.close())).toBe('notFound: No such file or directory (os error 2)');
    expect([names(), text(at('f'))]).toEqual([['f'], 'old']);
  });

  test('when it is read, which always fails', async () => {
    const file = await replace(at('f'));
    expect(await errorOf(file.read(0, 1))).toBe('failed: Bad file descriptor (os error 9)');
    await file.discard();
    expect(names()).toEqual([]);
  });
});

test('two replacements of one file do not disturb each other; the last close wins', async () => {
  const [first, second] = [await replace(at('f')), await replace(at('f'))];
  await first.write(0, Buffer.from('first'));
  await second.write(0, Buffer.from('second'));
  await second.close();
  expect(text(at('f'))).toBe('second');
  await first.close();
  expect([names(), text(at('f'))]).toEqual([['f'], 'first']);
});

describe('a replacement with a condition', () => {
  const OLD = createHash('sha256').update('old').digest('hex');
  const begin = async (content: string, ifSha256 = OLD) => {
    const file = await openAtomicReplacement(nativePathOfText(at('f')), { ifSha256 });
    await file.write(0, Buffer.from(content));
    return file;
  };

  test('takes effect while the file has the expected content', async () => {
    writeFileSync(at('f'), 'old');
    await (await begin('new')).close();
    expect([names(), text(at('f'))]).toEqual([['f'], 'new']);
  });

  test.each([
    [
      'has other content',
      () => writeFileSync(at('f'), 'two'),
      /^refused: the file has changed: its SHA-256 is /,
    ],
    ['is gone', () => rmSync(at('f')), /^refused: the file has changed: it is gone; nothing was replaced$/],
    [
      'is a link',
      () => {
        rmSync(at('f'));
        symlinkSync('g', at('f'));
      },
      /^refused: the file has changed: it is gone/,
    ],
    [
      'is too large to compare',
      () => truncateSync(at('f'), MAX_COMPARED_BYTES + 1),
      /^refused: the file has changed: it has more than 16777216 bytes/,
    ],
  ])('is dropped when the file %s', async (_, change, message) => {
    writeFileSync(at('f'), 'old');
    const file = await begin('new');
    change();
    const before = names().filter((name) => !name.endsWith('.tmp'));
    expect(await errorOf(file.close())).toMatch(message);
    expect(names()).toEqual(before);
  });

  test('is the only one of several that takes effect', async () => {
    writeFileSync(at('f'), 'old');
    const files = await Promise.all(Array.from({ length: 8 }, (_, index) => begin(`new ${index}`)));
    const closed = await Promise.allSettled(files.map((file) => file.close()));
    const winners = closed.flatMap(({ status }, index) => (status === 'fulfilled' ? [index] : []));
    expect(winners).toHaveLength(1);
    expect([names(), text(at('f'))]).toEqual([['f'], `new ${winners[0]}`]);
  });
});

test('the next replacement removes what a killed process left behind', async () => {
  const gone = spawnSync('true').pid;
  const leftover = (await temporaryName('f')).replace(`-${process.pid}-`, `-${gone}-`);
  writeFileSync(at(leftover), 'half');
  await replaceWith(at('other'), 'new');
  expect(names()).toEqual(['other']);
});
