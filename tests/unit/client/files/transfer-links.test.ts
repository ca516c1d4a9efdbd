import {
  chownSync,
  closeSync,
  existsSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { beforeEach, describe, expect, test } from 'vitest';
import type { ListResult } from '../../../../src/client/backend.ts';
import { ClientError } from '../../../../src/client/errors.ts';
import { transferFixture, unsupported } from './transfer-fixture.ts';

const { at, real, filesWith, environment } = transferFixture();

const all = { list: unsupported, setAttributes: unsupported, createLink: unsupported };
/** A server without attributes, which cannot report links that lead nowhere. */
const plain = filesWith({
  ...all,
  replaceFile: (path, content, options) =>
    options?.attributes === undefined ? real.replaceFile(path, content, options) : unsupported(),
});

/** What the links in the destination lead to. */
function makeVictim(): void {
  mkdirSync(at('victim/ssh'), { recursive: true, mode: 0o700 });
  writeFileSync(at('victim/file'), 'original');
}

function expectVictimUntouched(): void {
  expect(readdirSync(at('victim')).sort()).toEqual(['file', 'ssh']);
  expect(readdirSync(at('victim/ssh'))).toEqual([]);
  expect(readFileSync(at('victim/file'), 'utf8')).toBe('original');
  expect(statSync(at('victim/ssh')).mode & 0o777).toBe(0o700);
}

const LARGE = Buffer.alloc(9 * 1024 * 1024, 'abc');

/** A tree, and a destination that has links in the places of its directory and files. */
function makeTreeAndLinks(destination: string): void {
  makeVictim();
  mkdirSync(at('source/build'), { recursive: true, mode: 0o777 });
  writeFileSync(at('source/build/keys'), 'new');
  writeFileSync(at('source/notes'), 'new');
  writeFileSync(at('source/dangling'), 'new');
  writeFileSync(at('source/large'), LARGE);
  mkdirSync(at('source/nowhere'));
  mkdirSync(at(destination));
  symlinkSync(at('victim/ssh'), at(`${destination}/build`));
  symlinkSync(at('victim/file'), at(`${destination}/notes`));
  symlinkSync(at('victim/new'), at(`${destination}/dangling`));
  symlinkSync(at('victim/large'), at(`${destination}/large`));
  symlinkSync(at('victim/dir'), at(`${destination}/nowhere`));
}

function expectCopied(destination: string): void {
  expectVictimUntouched();
  for (const name of ['build', 'notes', 'dangling', 'large', 'nowhere'])
    expect(lstatSync(at(`${destination}/${name}`)).isSymbolicLink(), name).toBe(false);
  expect(readFileSync(at(`${destination}/build/keys`), 'utf8')).toBe('new');
  expect(readFileSync(at(`${destination}/notes`), 'utf8')).toBe('new');
}

describe.each([
  ['a server', filesWith({})],
  ['a server without attributes', plain],
])('%s', (_name, files) => {
  test.each(['download', 'upload'] as const)('%s replaces links below its destination', async (direction) => {
    makeTreeAndLinks('target');
    await files[direction](at('source'), at('target'), { keepTimes: true });
    expectCopied('target');
  });

  test.each(['download', 'upload'] as const)('%s follows the destination itself', async (direction) => {
    makeTreeAndLinks('inner');
    symlinkSync('inner', at('target'));
    await files[direction](at('source'), at('target'));
    expectCopied('inner');
    expect(lstatSync(at('target')).isSymbolicLink()).toBe(true);
    symlinkSync(at('inner/notes'), at('named'));
    writeFileSync(at('source/notes'), 'newer');
    await files[direction](at('source/notes'), at('named'));
    expect(readFileSync(at('inner/notes'), 'utf8')).toBe('newer');
  });
});

test('a second download does not write through the links of the first one', async () => {
  makeVictim();
  mkdirSync(at('remote'));
  symlinkSync(at('victim/ssh'), at('remote/build'));
  symlinkSync(at('victim/file'), at('remote/notes'));
  expect(await environment.files.download(at('remote'), at('local'))).toMatchObject({ links: 2 });
  for (const name of ['build', 'notes']) rmSync(at(`remote/${name}`));
  mkdirSync(at('remote/build'));
  writeFileSync(at('remote/build/keys'), 'evil');
  writeFileSync(at('remote/notes'), 'evil');
  await environment.files.download(at('remote'), at('local'));
  expectVictimUntouched();
  expect(readFileSync(at('local/build/keys'), 'utf8')).toBe('evil');
});

describe('a hostile listing', () => {
  const FILE = { kind: 'file', size: 2, mode: 0o644, modifiedAtMs: 1 } as const;
  const link = (target: unknown) => ({ ...FILE, kind: 'symlink' as const, target: target as string });

  beforeEach(() => {
    makeVictim();
    mkdirSync(at('remote/build'), { recursive: true });
    writeFileSync(at('remote/build/keys'), 'evil');
    writeFileSync(at('remote/ok'), 'ok');
  });

  /** Downloads with listings that a function has changed. Says how often the server was asked. */
  async function download(change: (result: ListResult, requests: number) => ListResult) {
    let requests = 0;
    const files = filesWith({
      list: async (paths, options) => {
        const result = await real.list(paths, options);
        if (options?.recursive !== true) return result;
        if (++requests > 20) throw new Error('too many requests');
        return change(structuredClone(result) as ListResult, requests);
      },
    });
    return { requests, result: await files.download(at('remote'), at('local'), { keepTimes: true }) };
  }

  type Entries = NonNullable<ListResult['listings'][number]['entries']>;
  /** Adds entries to the first directory. */
  const added =
    (...more: readonly unknown[]) =>
    (result: ListResult): ListResult => {
      const [first, ...rest] = result.listings;
      return {
        ...result,
        listings: [{ ...first!, entries: [...(more as Entries), ...first!.entries!] }, ...rest],
      };
    };

  test.each<[string, (result: ListResult, requests: number) => ListResult]>([
    ['an entry twice, first as a link', added({ name: 'build', ...link('/victim') })],
    ['an entry twice in two encodings', added({ name: '%62uild', ...link('/victim') })],
    [
      'a directory in two pages, first as a link',
      (result, requests) => {
        const [first] = result.listings;
        if (requests > 1) return result;
        const entries = [{ name: 'build', ...link(at('victim/ssh')) }];
        return { listings: [{ ...first!, entries }], unlisted: [first!.path] };
      },
    ],
    ['a name with a slash', added({ name: 'build/other', ...FILE })],
    ['a name with an encoded slash', added({ name: '%2e%2e%2fescaped', ...FILE })],
    ['the parent directory', added({ name: '..', ...FILE, kind: 'directory' })],
    ['a name with NUL', added({ name: 'a%00b', ...FILE })],
    ['a name that is no text', added({ name: 5, ...FILE })],
    ['a link without a target', added({ name: 'l', ...link(undefined) })],
    ['a link with an empty target', added({ name: 'l', ...link('') })],
    ['a link with NUL in its target', added({ name: 'l', ...link('a%00b') })],
    ['an unknown kind', added({ name: 'l', ...FILE, kind: 'constructor' })],
    ['a size that is no number', added({ name: 'l', ...FILE, size: 'big' })],
    [
      'another directory',
      (result) => ({ ...result, listings: [{ ...result.listings[0]!, path: 'file:///etc' }] }),
    ],
    ['no listings', (result) => ({ ...result, listings: [] })],
    ['listings that are none', (result) => ({ ...result, listings: [null] as never })],
    ['no list of what is missing', (result) => ({ ...result, unlisted: undefined as never })],
    [
      'the same directory forever',
      (result) => ({ listings: [result.listings[0]!], unlisted: [result.listings[0]!.path] }),
    ],
  ])('with %s is a protocol error', async (_what, change) => {
    await expect(download(change)).rejects.toMatchObject({
      kind: 'protocol',
      message: expect.stringMatching(/^invalid message from the server: /),
    });
    expectVictimUntouched();
    expect(existsSync(at('escaped'))).toBe(false);
  });

  test('cannot create a set-user-ID file or directory', async () => {
    const { result } = await download((listed) => ({
      ...listed,
      listings: listed.listings.map((listing) => ({
        ...listing,
        entries: listing.entries!.map((entry) => ({ ...entry, mode: 0o7755 })),
      })),
    }));
    expect(result).toMatchObject({ files: 2 });
    for (const name of ['ok', 'build', 'build/keys'])
      expect((statSync(at(`local/${name}`)).mode & 0o7777).toString(8), name).toBe('755');
  });
});

describe('the part of an interrupted download', () => {
  /** Leaves a part of an ended process. Returns its name. */
  async function leavePart(): Promise<string> {
    mkdirSync(at('down'));
    writeFileSync(at('remote'), LARGE);
    let read = 0;
    const files = filesWith({
      readFileStream: async function* (path, options) {
        for await (const block of real.readFileStream(path, options)) {
          read += block.length;
          if (read === 4 * 1024 * 1024) throw new ClientError('disconnected', 'gone');
          yield block;
        }
      },
    });
    await expect(files.download(at('remote'), at('down/file'))).rejects.toMatchObject({
      kind: 'disconnected',
    });
    const [own] = readdirSync(at('down'));
    const name = own!.replace(/\.\d+-\d+\.part$/, '.999999999-1.part');
    renameSync(at(`down/${own}`), at(`down/${name}`));
    return name;
  }

  async function expectFreshDownload(): Promise<void> {
    expect(await environment.files.download(at('remote'), at('down/file'))).toMatchObject({
      resumedBytes: 0,
    });
    expect(readFileSync(at('down/file')).equals(LARGE)).toBe(true);
    expect(lstatSync(at('down/file'))).toMatchObject({ uid: process.getuid!(), nlink: 1 });
  }

  test('is not continued if it is a link', async () => {
    const name = await leavePart();
    renameSync(at(`down/${name}`), at('elsewhere'));
    symlinkSync(at('elsewhere'), at(`down/${name}`));
    const size = statSync(at('elsewhere')).size;
    await expectFreshDownload();
    expect(statSync(at('elsewhere')).size).toBe(size);
  });

  test('is not continued if another user owns it', async ({ skip }) => {
    if (process.getuid!() !== 0) skip('only root can give files away');
    const name = await leavePart();
    chownSync(at(`down/${name}`), 65534, 65534);
    const held = openSync(at(`down/${name}`), 'r+');
    await expectFreshDownload();
    closeSync(held);
    expect(readdirSync(at('down')).sort()).toEqual([name, 'file'].sort());
  });

  test('is removed when the source has changed', async () => {
    const name = await leavePart();
    writeFileSync(at(`down/.other.exec-server-${'f'.repeat(32)}.999999999-1.part`), 'kept');
    writeFileSync(at('remote'), Buffer.concat([LARGE, Buffer.from('more')]));
    expect(await environment.files.download(at('remote'), at('down/file'))).toMatchObject({
      resumedBytes: 0,
    });
    expect(existsSync(at(`down/${name}`))).toBe(false);
    expect(readdirSync(at('down'))).toHaveLength(2);
  });
});

test('an upload writes into a directory that cannot be listed', async () => {
  mkdirSync(at('source'));
  mkdirSync(at('target'));
  writeFileSync(at('source/file'), 'new');
  symlinkSync(at('none'), at('target/file'));
  const files = filesWith({
    list: async ([path]) => ({
      listings: [{ path: path!, error: { code: -32600, message: 'Permission denied (os error 13)' } }],
      unlisted: [],
    }),
  });
  await files.upload(at('source'), at('target'));
  expect(readFileSync(at('target/file'), 'utf8')).toBe('new');
  expect(existsSync(at('none'))).toBe(false);
});
