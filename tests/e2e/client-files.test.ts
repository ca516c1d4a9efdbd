import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { ExecServerClient } from '../../src/client/client.ts';
import type { TransferError } from '../../src/client/files/transfer-result.ts';
import { type ConnectedClient, overWebSocket } from '../support/connected-clients.ts';
import { overRelay } from '../support/relay.ts';
import { waitFor } from '../support/wait-for.ts';

const MEGABYTE = 1024 * 1024;
let folder: string;
beforeEach(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'client-files-')));
});
afterEach(() => rmSync(folder, { recursive: true, maxRetries: 5 }));

const at = (path: string) => join(folder, path);
const write = (path: string, content: string | Uint8Array = path) => writeFileSync(at(path), content);
const read = (path: string) => readFileSync(at(path), 'utf8');
const sha256 = (content: string | Uint8Array) => createHash('sha256').update(content).digest('hex');

/** Everything below a directory, names as bytes, with the content of files. */
function tree(path: string | Buffer): Record<string, unknown> {
  const entries = readdirSync(path, { withFileTypes: true, encoding: 'buffer' });
  return Object.fromEntries(
    entries.map((entry) => {
      const inner = Buffer.concat([Buffer.from(path), Buffer.from('/'), entry.name]);
      return [
        entry.name.toString('latin1'),
        entry.isDirectory() ? tree(inner) : readFileSync(inner, 'latin1'),
      ];
    }),
  );
}

describe.each<[string, () => Promise<ConnectedClient>]>([
  ['a websocket', () => overWebSocket()],
  ['a relay', () => overRelay()],
])('files over %s', (_name, open) => {
  let connected: ConnectedClient;
  let files: ExecServerClient['files'];
  beforeAll(async () => {
    connected = await open();
    files = connected.client.files;
  });
  afterAll(() => connected.close());

  test('takes native paths, file: URIs and URL objects', async () => {
    await files.write(at('new/deep/a b#1.txt'), 'text');
    const uri = pathToFileURL(at('new/deep/a b#1.txt'));
    expect(await files.readText(uri.href)).toBe('text');
    expect(Buffer.from(await files.read(uri)).toString()).toBe('text');
    expect(await files.list(at('new/deep'))).toEqual([
      { name: 'a b#1.txt', path: at('new/deep/a b#1.txt'), kind: 'file', isSymlink: false },
    ]);
    expect(await files.stat(at('new'))).toMatchObject({
      path: at('new'),
      kind: 'directory',
      isSymlink: false,
    });
    expect(await files.exists(at('new'))).toBe(true);
    expect(await files.exists(at('none'))).toBe(false);
    expect(await files.exists(at('new/deep/a b#1.txt/x'))).toBe(false);
    const { size, modifiedAt } = await files.stat(uri);
    expect([size, modifiedAt.getTime()]).toEqual([4, Math.trunc(lstatSync(uri).mtimeMs)]);
  });

  test('a list marks links and has those that lead nowhere', async () => {
    mkdirSync(at('links/dir'), { recursive: true });
    write('links/file', 'x');
    symlinkSync('dir', at('links/to-dir'));
    symlinkSync('file', at('links/to-file'));
    symlinkSync('none', at('links/to-nothing'));
    symlinkSync('links', at('listed'));
    for (const name of ['links', 'listed']) {
      const found = (await files.list(at(name))).map((entry) => [entry.name, entry.kind, entry.isSymlink]);
      expect(found).toEqual([
        ['dir', 'directory', false],
        ['file', 'file', false],
        ['to-dir', 'directory', true],
        ['to-file', 'file', true],
        ['to-nothing', 'symlink', true],
      ]);
    }
  });

  test('relative paths are relative to the default directory of the server', async () => {
    const { cwd } = await connected.client.call('environment/info', null);
    expect(pathToFileURL(await files.realPath('.')).href).toBe(cwd);
    expect((await files.list()).map(({ name }) => name)).toEqual(readdirSync(new URL(cwd!)).sort());
  });

  test('copies, moves and removes', async () => {
    write('file', 'x');
    await files.copy(at('file'), at('copy'));
    await files.move(at('copy'), at('moved'));
    await files.makeDirectory(at('dir/inner'));
    await files.copy(at('dir'), at('dir2'));
    await expect(files.remove(at('dir'))).rejects.toMatchObject({
      message: `cannot remove ${at('dir')}: the directory is not empty; pass recursive: true to remove everything in it`,
    });
    await files.remove(at('dir'), { recursive: true });
    await files.remove(at('dir2/inner'));
    await files.remove(at('none'), { force: true });
    expect(tree(folder)).toEqual({ file: 'x', moved: 'x', dir2: {} });
  });

  test.each<[string, (at: (path: string) => string) => Promise<unknown>, string, string]>([
    [
      'reading a missing file',
      (at) => files.read(at('none')),
      'notFound',
      'cannot read FOLDER/none: No such file',
    ],
    [
      'reading a directory',
      (at) => files.readText(at('dir')),
      'isDirectory',
      'cannot read FOLDER/dir: it is a',
    ],
    ['streaming a directory', (at) => files.readStream(at('dir')).next(), 'isDirectory', 'FOLDER/dir'],
    ['reading below a file', (at) => files.read(at('file/x')), 'notDirectory', 'cannot read FOLDER/file/x'],
    ['writing to a directory', (at) => files.write(at('dir'), 'x'), 'isDirectory', 'cannot write FOLDER/dir'],
    [
      'a parent that is a file',
      (at) => files.write(at('file/x'), 'x'),
      'notDirectory',
      'cannot write FOLDER/file/x',
    ],
    [
      'a missing parent',
      (at) => files.write(at('a/b'), 'x', { parents: false }),
      'notFound',
      'cannot write FOLDER/a/b',
    ],
    ['listing a file', (at) => files.list(at('file')), 'notDirectory', 'cannot list FOLDER/file'],
    [
      'an existing directory',
      (at) => files.makeDirectory(at('dir'), { parents: false }),
      'exists',
      'cannot create the directory FOLDER/dir: File exists',
    ],
    ['removing a missing file', (at) => files.remove(at('none')), 'notFound', 'cannot remove FOLDER/none'],
    ['hashing a directory', (at) => files.hash(at('dir')), 'isDirectory', 'cannot hash FOLDER/dir'],
    [
      'walking a missing directory',
      (at) => files.walk(at('none')).next(),
      'notFound',
      'cannot walk FOLDER/none',
    ],
    ['watching a missing path', (at) => files.watch(at('none')), 'notFound', 'cannot watch FOLDER/none'],
    [
      'searching a missing path',
      (at) => files.search(at('none'), 'x'),
      'notFound',
      'cannot search FOLDER/none',
    ],
    ['a name with a newline', (at) => files.read(at('a\nb')), 'notFound', 'cannot read "FOLDER/a\\nb"'],
    [
      'moving a missing file',
      (at) => files.move(at('none'), at('x')),
      'notFound',
      'cannot move FOLDER/none to FOLDER/x',
    ],
    // The kernel creates no files there, not even for root.
    [
      'a forbidden place',
      () => files.write('/sys/kernel/new', 'x'),
      'permissionDenied',
      'cannot write /sys/kernel/new',
    ],
    ['a URI of another kind', () => files.read('file://x?y'), 'invalidInput', 'file://x?y'],
  ])('the error of %s has a kind and names the path', async (_case, act, kind, message) => {
    write('file', 'x');
    mkdirSync(at('dir'));
    const text = message.replaceAll('FOLDER', folder);
    await expect(act(at)).rejects.toMatchObject({
      name: 'ClientError',
      kind,
      message: expect.stringContaining(text),
    });
  });

  test('walks, searches and hashes', async () => {
    mkdirSync(at('dir/.hidden'), { recursive: true });
    write('dir/one', 'first\nsecond\n');
    write('dir/.hidden/two', 'second');
    const walked = async (options = {}) => {
      const found: string[] = [];
      for await (const { path } of files.walk(at('dir'), options)) found.push(path.slice(folder.length + 5));
      return found;
    };
    expect(await walked()).toEqual(['.hidden', 'one', '.hidden/two']);
    expect(await walked({ maxDepth: 1 })).toEqual(['.hidden', 'one']);
    expect(await walked({ hidden: false })).toEqual(['.hidden', 'one']);
    expect((await files.search(at('dir'), 'sec.nd')).matches).toEqual([
      { path: at('dir/one'), line: 2, column: 1, text: 'second' },
    ]);
    expect(await files.hash(at('dir/one'))).toEqual({ sha256: sha256('first\nsecond\n'), size: 13 });
    const condition = { ifSha256: sha256('first\nsecond\n') };
    await files.write(at('dir/one'), 'third', condition);
    await expect(files.write(at('dir/one'), 'fourth', condition)).rejects.toMatchObject({ kind: 'conflict' });
    const inPlace = files.write(at('dir/one'), 'fourth', { ...condition, atomic: false });
    await expect(inPlace).rejects.toMatchObject({ kind: 'invalidInput' });
    expect(read('dir/one')).toBe('third');
    write('dir/one', 'first\nsecond\n');
    const hashes = await files.hashAll([at('dir/one'), at('none')]);
    expect(hashes).toMatchObject([
      { path: at('dir/one'), size: 13 },
      { path: at('none'), error: { kind: 'notFound', message: expect.stringContaining(at('none')) } },
    ]);
  });

  test('a watch reports native paths until it is disposed of', async () => {
    mkdirSync(at('dir'));
    const watch = await files.watch(at('dir'), { debounceMs: 1 });
    write('dir/new');
    const changes = watch[Symbol.asyncIterator]();
    const { value } = await changes.next();
    expect(value).toMatchObject({ changes: [{ path: at('dir/new'), kind: 'created' }], overflow: false });
    await watch[Symbol.asyncDispose]();
    expect(await changes.next()).toMatchObject({ done: true });
  });

  test('odd names survive an upload and a download', async () => {
    const names = [
      'a\nb',
      'é€😀',
      ' ',
      '%41',
      '#?&',
      '-rf',
      '...',
      'C:',
      '\\',
      Buffer.from([0xff, 0x0a, 0x80]),
    ];
    mkdirSync(at('odd/dir\n'), { recursive: true });
    for (const name of names)
      writeFileSync(Buffer.concat([Buffer.from(`${at('odd')}/`), Buffer.from(name)]), 'x');
    write('odd/dir\n/inner', '');
    const sent = await files.upload(at('odd'), at('up'));
    expect(sent).toMatchObject({ files: 11, directories: 2, bytes: 10, verified: 'sha256', skipped: [] });
    expect(tree(at('up'))).toEqual(tree(at('odd')));
    const received = await files.download(at('up'), at('down'));
    expect(received).toMatchObject({ files: 11, directories: 2, bytes: 10, verified: 'sha256', skipped: [] });
    expect(tree(at('down'))).toEqual(tree(at('odd')));
  });

  test('links stay links, wherever they lead; special files are skipped and named', async () => {
    mkdirSync(at('source/dir'), { recursive: true });
    write('source/file', 'x');
    const links = {
      'to-file': 'file',
      'to-dir': 'dir',
      'to-top': '.',
      loop: 'loop',
      nowhere: 'none',
      far: at('source/dir'),
    };
    for (const [name, target] of Object.entries(links)) symlinkSync(target, at(`source/${name}`));
    await promisify(execFile)('mkfifo', [at('source/fifo')]);
    const expected = {
      files: 1,
      directories: 2,
      links: 6,
      followedLinks: [],
      skipped: [{ path: at('source/fifo'), reason: 'neither a file nor a directory' }],
    };
    const targets = (name: string) =>
      Object.fromEntries(Object.keys(links).map((link) => [link, readlinkSync(at(`${name}/${link}`))]));
    for (const _again of [1, 2]) {
      expect(await files.upload(at('source'), at('up'))).toMatchObject(expected);
      expect(targets('up')).toEqual(links);
      expect(await files.download(at('source'), at('down'))).toMatchObject(expected);
      expect(targets('down')).toEqual(links);
    }
    expect(readdirSync(at('down')).sort()).toEqual(['dir', 'file', ...Object.keys(links)].sort());
    const looped: string[] = [];
    for await (const { kind } of files.walk(at('source'), { followSymlinks: true })) looped.push(kind);
    expect(looped.length).toBeLessThan(10);
  });

  test('modes and empty directories are kept, and times where asked for', async () => {
    mkdirSync(at('source/read-only/empty'), { recursive: true });
    write('source/read-only/private', 'x');
    write('source/tool', 'x');
    chmodSync(at('source/read-only/private'), 0o400);
    chmodSync(at('source/tool'), 0o755);
    chmodSync(at('source/read-only/empty'), 0o711);
    const paths = ['read-only/private', 'tool', 'read-only/empty', 'read-only', '.'];
    for (const path of paths) utimesSync(at(`source/${path}`), 1, 1_000_000.123);
    chmodSync(at('source/read-only'), 0o555);
    const state = (name: string) =>
      paths.map((path) => {
        const { mode, mtimeMs } = lstatSync(at(`${name}/${path}`));
        return [path, mode & 0o777, Math.floor(mtimeMs)];
      });
    await files.upload(at('source'), at('up'), { keepTimes: true });
    await files.download(at('source'), at('down'), { keepTimes: true });
    expect(state('up')).toEqual(state('source'));
    expect(state('down')).toEqual(state('source'));
    await files.upload(at('source'), at('now'));
    expect(lstatSync(at('now/tool')).mtimeMs).toBeGreaterThan(1_000_000_123);
    for (const name of ['source', 'up', 'down', 'now']) chmodSync(at(`${name}/read-only`), 0o755);
  });

  test('an upload replaces a file; a failed one keeps the old file', async () => {
    write('local', 'new');
    writeFileSync(at('target'), 'old', { mode: 0o755 });
    const progress: number[] = [];
    await files.upload(at('local'), at('target'), {
      onProgress: ({ fileBytes }) => progress.push(fileBytes),
    });
    expect([read('target'), lstatSync(at('target')).mode & 0o777]).toEqual(['new', 0o644]);
    expect(progress).toEqual([3, 3]);
    truncateSync(at('local'), 7 * MEGABYTE);
    const giveUp = new AbortController();
    const aborted = files.upload(at('local'), at('target'), {
      signal: giveUp.signal,
      onProgress: () => giveUp.abort(),
    });
    await expect(aborted).rejects.toMatchObject({ kind: 'aborted', result: { files: 0 } });
    expect(read('target')).toBe('new');
    await waitFor('the end of the temporary file', () => readdirSync(folder).length === 2);
  });

  test('a download replaces a file; a failed one keeps the old file', async () => {
    write('remote', 'new');
    writeFileSync(at('target'), 'old', { mode: 0o600 });
    symlinkSync('target', at('link'));
    await files.download(at('remote'), at('link'));
    expect([read('target'), lstatSync(at('target')).mode & 0o777]).toEqual(['new', 0o644]);
    expect(lstatSync(at('link')).isSymbolicLink()).toBe(true);
    truncateSync(at('remote'), 7 * MEGABYTE);
    const giveUp = new AbortController();
    const aborted = files.download(at('remote'), at('target'), {
      signal: giveUp.signal,
      onProgress: () => giveUp.abort(),
    });
    await expect(aborted).rejects.toMatchObject({ kind: 'aborted', result: { files: 0 } });
    expect(read('target')).toBe('new');
    expect(readdirSync(folder).sort()).toEqual(['link', 'remote', 'target']);
  });

  test('a directory transfer that fails says which files were transferred', async () => {
    mkdirSync(at('source/b'), { recursive: true });
    write('source/a', 'a');
    write('source/b/c', 'c');
    mkdirSync(at('target/b/c'), { recursive: true });
    const failed = (await files.upload(at('source'), at('target')).catch((error) => error)) as TransferError;
    expect(failed).toMatchObject({
      name: 'TransferError',
      kind: 'isDirectory',
      transferred: [at('source/a')],
    });
    expect(failed.message).toMatch(
      /^cannot upload to .*\/target\/b\/c: .* \(1 file was transferred before\)$/,
    );
    const back = await files.download(at('source'), at('target')).catch((error) => error);
    expect(back).toMatchObject({ kind: 'storage', transferred: [at('source/a')] });
    expect(read('target/a')).toBe('a');
    const missing = [
      [() => files.upload(at('none'), at('x')), 'storage'],
      [() => files.download(at('none'), at('x')), 'notFound'],
    ] as const;
    for (const [transfer, kind] of missing) {
      await expect(transfer()).rejects.toMatchObject({
        kind,
        message: expect.stringContaining(at('none')),
      });
    }
  });
});

/** Transfers a file in a process of its own, and reports by how many bytes the process grew. */
test('an error of a missing file shows the line of the caller', async () => {
  const { client, close } = await overWebSocket();
  try {
    const caller = async () => await client.files.readText(at('none'));
    await expect(caller()).rejects.toSatisfy((error: Error) => error.stack!.includes('client-files.test.ts'));
    expect(existsSync(at('none'))).toBe(false);
  } finally {
    await close();
  }
});
