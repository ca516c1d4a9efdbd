import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { newSyncFolders, writeFiles } from '../support/file-trees.ts';
import { CommandUser } from '../support/private-server.ts';
import { waitFor } from '../support/wait-for.ts';
import { firstLine } from '../unit/cli/run-cli.ts';

const user = new CommandUser();
afterAll(() => user.close());

/** Each test has a source and a destination of its own. */
let source: string;
let destination: string;
beforeEach(() => {
  ({ source, destination } = newSyncFolders(user));
});

/** Everything below a directory: the content of files, the targets of links, and modes. */
function contentOf(root: string): Record<string, string> {
  const found: Record<string, string> = {};
  for (const path of readdirSync(root, { recursive: true, encoding: 'utf8' }).sort()) {
    const stats = lstatSync(join(root, path));
    const mode = (stats.mode & 0o777).toString(8);
    if (stats.isSymbolicLink()) found[path] = `-> ${readlinkSync(join(root, path))}`;
    else if (stats.isDirectory()) found[path] = `directory ${mode}`;
    else found[path] = `${mode} ${Math.floor(stats.mtimeMs)} ${readFileSync(join(root, path), 'latin1')}`;
  }
  return found;
}

const up = (...flags: string[]) => user.run(['sync', ...flags, source, `local:${destination}`]);
const down = (...flags: string[]) => user.run(['sync', ...flags, `local:${source}`, destination]);

function git(directory: string, ...args: string[]): string {
  const identity = ['-c', 'user.name=test', '-c', 'user.email=test@example.com', '-c', 'safe.directory=*'];
  const env = { PATH: process.env.PATH, HOME: user.workspace.path };
  return execFileSync('git', [...identity, ...args], { cwd: directory, env, encoding: 'utf8' });
}

test('synchronizes a git checkout there and back, with modes and links', async () => {
  git(source, 'init', '-q', '-b', 'logs');
  writeFiles(source, {
    '.gitignore': 'logs\n*.o\n',
    'src/main.c': 'int main;\n',
    'run.sh': '#!/bin/sh\n',
    empty: '',
  });
  chmodSync(join(source, 'run.sh'), 0o755);
  symlinkSync('src/main.c', join(source, 'link'));
  symlinkSync('nowhere', join(source, 'broken'));
  symlinkSync('src', join(source, 'to-directory'));
  git(source, 'add', '.');
  git(source, 'commit', '-qm', 'first');
  writeFiles(source, { 'main.o': 'object' });

  expect(await up()).toMatchObject({
    code: 0,
    stderr: '',
    stdout: expect.stringMatching(/^\d+ files copied/),
  });
  expect(git(destination, 'status', '--porcelain')).toBe('');
  expect(git(destination, 'rev-parse', 'logs')).toBe(git(source, 'rev-parse', 'logs'));
  const { 'main.o': _, ...expected } = contentOf(source);
  const copied = contentOf(destination);
  // Looking at the copy has rewritten its index.
  expect({ ...copied, '.git/index': '' }).toEqual({ ...expected, '.git/index': '' });

  writeFiles(destination, { 'src/main.c': 'int main(void);\n', 'src/new.c': '' });
  git(destination, 'add', '.');
  git(destination, 'commit', '-qm', 'second');
  const back = await user.run(['sync', `local:${destination}`, source]);
  expect(back).toMatchObject({ code: 0, stderr: '' });
  const again = await user.run(['sync', '--json', `local:${destination}`, source]);
  const [pass, ...others] = again.stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(others).toEqual([]);
  expect(pass).toMatchObject({
    type: 'pass',
    reason: 'start',
    copied: 0,
    links: 0,
    updated: 0,
    deleted: 0,
    failed: 0,
  });
  expect(pass.unchanged).toBeGreaterThan(30);

  expect(git(source, 'status', '--porcelain')).toBe('');
  expect(git(source, 'log', '--format=%s')).toBe('second\nfirst\n');
  expect(existsSync(join(source, 'main.o'))).toBe(true);
});

describe.each<[string, typeof up]>([
  ['to an environment', up],
  ['from an environment', down],
])('%s', (_name, sync) => {
  test('copies what differs, sets times, and deletes only when asked to', async () => {
    writeFiles(source, {
      same: '1',
      touched: '2',
      changed: '3',
      'sub/new': '4',
      'was-directory': '5',
      'was-file/x': '6',
    });
    writeFiles(destination, {
      same: '1',
      touched: '2',
      changed: 'x',
      'was-directory/y': '',
      'was-file': '',
      'extra/z': '',
    });
    for (const side of [source, destination]) utimesSync(join(side, 'same'), 1000, 1000);
    for (const name of ['touched', 'changed']) utimesSync(join(source, name), 1000, 1000);
    chmodSync(join(source, 'sub'), 0o700);

    const first = await sync();
    expect(first.code).toBe(125);
    expect(first.stderr).toBe(
      'exec-server sync: was-directory: a directory that is not empty is in the way; --delete removes it\n',
    );
    expect(first.stdout).toBe(
      '3 files copied (3 B), 2 directories created, 1 got another mode or time, 1 deleted, 1 unchanged, 3 only in the destination, 1 failed\n',
    );

    const dry = await sync('--delete', '--dry-run');
    expect(dry.stdout.split('\n').slice(0, -2).sort()).toEqual([
      'copy       was-directory',
      'delete     extra',
      'delete     extra/z',
      'delete     was-directory',
      'delete     was-directory/y',
    ]);
    expect(dry.code).toBe(0);
    expect(existsSync(join(destination, 'extra/z'))).toBe(true);

    expect(await sync('--delete')).toMatchObject({ code: 0, stderr: '' });
    expect(contentOf(destination)).toEqual(contentOf(source));
  });

  test('neither copies nor deletes ignored files', async () => {
    writeFiles(source, {
      '.gitignore': 'node_modules\n*.log\n!keep.log\n',
      '.execignore': '!special.log\n',
      'node_modules/a/index.js': '',
      'a.log': '',
      'keep.log': 'k',
      'special.log': 's',
      'secret.env': 'new',
    });
    writeFiles(destination, { 'node_modules/b': 'b', 'old/x.log': 'x', 'old/y': 'y', 'secret.env': 'old' });
    const { code, stderr } = await sync('--delete', '--exclude', '*.env');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(Object.keys(contentOf(destination))).toEqual(
      [
        '.execignore',
        '.gitignore',
        'keep.log',
        'node_modules',
        'node_modules/b',
        'old',
        'old/x.log',
        'secret.env',
        'special.log',
      ].sort(),
    );
    expect(readFileSync(join(destination, 'secret.env'), 'utf8')).toBe('old');
  });

  test('keeps names of any bytes, and escapes them when it prints them', async () => {
    const odd = Buffer.from('not-utf8-\xff', 'latin1');
    writeFileSync(Buffer.concat([Buffer.from(`${source}/`), odd]), 'odd');
    symlinkSync(Buffer.from('\xfe', 'latin1'), join(source, 'link'));
    writeFiles(source, { 'line\nbreak\u001b[2J': 'x', 'ä %2e#?': 'y' });
    const dry = await sync('--dry-run');
    expect(dry.stdout).toContain('line\\nbreak\\x1b[2J');
    expect(dry.stdout).not.toContain('\u001b');
    expect(await sync()).toMatchObject({ code: 0, stderr: '' });
    const names = (root: string) => readdirSync(root, { encoding: 'latin1' }).sort();
    expect(names(destination)).toEqual(names(source));
    expect(readlinkSync(join(destination, 'link'), { encoding: 'latin1' })).toBe('\xfe');
  });

  test('reports what cannot be copied, and copies the rest', async () => {
    writeFiles(source, { 'in-the-way': 'x', fine: 'y' });
    mkdirSync(destination);
    execFileSync('mkfifo', [join(destination, 'in-the-way'), join(source, 'pipe')]);
    const { code, stderr, stdout } = await sync();
    expect(code).toBe(125);
    expect(stderr.split('\n').sort().slice(1)).toEqual([
      'exec-server sync: in-the-way: a socket, a pipe or a device is in the way',
      'exec-server sync: skipped pipe: it is no file, directory or link; --exclude ignores it',
    ]);
    expect(stdout).toBe('1 file copied (1 B), 1 skipped, 1 failed\n');
    expect(readFileSync(join(destination, 'fine'), 'utf8')).toBe('y');
    // What is skipped is missing in the copy, so it is no success.
    rmSync(join(destination, 'in-the-way'));
    expect(await sync()).toMatchObject({
      code: 125,
      stdout: '1 file copied (1 B), 1 unchanged, 1 skipped\n',
    });
    expect(await sync('--exclude', 'pipe')).toMatchObject({ code: 0, stderr: '' });
  });

  test('refuses to delete everything because the source is empty', async () => {
    writeFiles(destination, { precious: 'x' });
    const { code, stderr } = await sync('--delete');
    expect(code).toBe(125);
    expect(stderr).toMatch(
      /is empty, and --delete would delete everything in .*; check the path, or delete it/,
    );
    expect(readdirSync(destination)).toEqual(['precious']);
    rmSync(source, { recursive: true });
    const missing = await sync('--delete');
    expect(missing.code).toBe(125);
    expect(missing.stderr).toMatch(/^exec-server: SRC '.*source' does not exist; check the path\n$/);
    expect(readdirSync(destination)).toEqual(['precious']);
  });
});

test('writes nothing outside of the destination through links', async () => {
  const outside = join(dirname(source), 'outside');
  writeFiles(outside, { victim: 'safe', 'deep/victim': 'safe' });
  writeFiles(source, { 'd/victim': 'evil', 'f/deep/victim': 'evil' });
  symlinkSync(join(outside, 'victim'), join(source, 'file-link'));
  symlinkSync(outside, join(source, 'directory-link'));
  mkdirSync(destination);
  // The user's own links are in the way of directories of the server.
  symlinkSync(outside, join(destination, 'd'));
  symlinkSync(outside, join(destination, 'f'));
  writeFiles(source, { 'was-link': 'new' });
  symlinkSync(join(outside, 'victim'), join(destination, 'was-link'));
  expect(await down('--delete')).toMatchObject({ code: 0, stderr: '' });
  expect(contentOf(destination)).toEqual(contentOf(source));
  expect(readFileSync(join(outside, 'victim'), 'utf8')).toBe('safe');
  expect(readFileSync(join(outside, 'deep/victim'), 'utf8')).toBe('safe');
});

test.each<[string, () => string[]]>([
  ['to', () => [source, `local:${destination}`]],
  ['from', () => [`local:${source}`, destination]],
])(
  'leaves no part of a file when it is interrupted while it copies %s an environment',
  async (_name, operands) => {
    writeFiles(source, { large: '' });
    truncateSync(join(source, 'large'), 2 ** 31);
    mkdirSync(destination);
    const { child, outcome } = user.start(['sync', ...operands()]);
    await waitFor('a part of the file', () => readdirSync(destination).length > 0);
    child.kill('SIGINT');
    expect(await outcome).toMatchObject({
      code: 130,
      stdout: '',
      stderr:
        'exec-server: interrupted; every file that was copied is complete; run the same command to continue\n',
    });
    await waitFor('the end of the part', () => readdirSync(destination).length === 0);
  },
);

test('works with a token that is limited to a directory, except for links', async () => {
  const folder = dirname(source);
  writeFiles(source, { a: 'a', 'sub/b': 'b' });
  symlinkSync('a', join(source, 'link'));
  mkdirSync(destination);
  const [secret, token] = [join(folder, 'secret'), join(folder, 'token')];
  await user.run(['token', '--out', secret]);
  const limits = ['--scope', 'files', '--path', destination];
  await user.run(['token', 'signed', '--secret-file', secret, ...limits, '--out', token]);
  const auth = ['--ws-auth', 'signed-bearer-token', '--ws-shared-secret-file', secret];
  const url = await firstLine(user.start(['serve', ...auth]));
  const run = (path: string) => user.run(['sync', '--token-file', token, source, `${url}:${path}`]);
  const inside = await run(join(destination, 'copy'));
  expect(inside).toMatchObject({
    code: 125,
    stdout: '2 files copied (2 B), 1 directory created, 1 failed\n',
  });
  expect(inside.stderr).toMatch(
    /^exec-server sync: link: cannot create .*the token does not allow fs\/createLink/,
  );
  const { link: _, ...files } = contentOf(source);
  expect(contentOf(join(destination, 'copy'))).toEqual(files);
  expect(await run(folder)).toMatchObject({ code: 125, stderr: expect.stringContaining('is not within') });
});

test('prints every step as JSON', async () => {
  writeFiles(source, { 'a/b': 'xyz' });
  symlinkSync('b', join(source, 'a/link'));
  writeFiles(destination, { old: '' });
  const { stdout } = await up('--json', '--delete');
  const records = stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(records).toEqual([
    { type: 'directory', path: 'a' },
    { type: 'copy', path: 'a/b', bytes: 3 },
    { type: 'link', path: 'a/link' },
    { type: 'delete', path: 'old' },
    {
      type: 'pass',
      reason: 'start',
      copied: 1,
      bytes: 3,
      directories: 1,
      links: 1,
      updated: 0,
      deleted: 1,
      unchanged: 0,
      kept: 0,
      skipped: 0,
      failed: 0,
      milliseconds: expect.any(Number),
    },
  ]);
});

test.each<[string, () => string[], RegExp]>([
  ['one operand', () => [source], /expected two directories, SRC and DST/],
  ['two local directories', () => [source, destination], /both are on this machine/],
  ['two environments', () => ['local:/a', 'local:/b'], /both are in an environment/],
  ['--watch with --dry-run', () => ['--watch', '-n', source, 'local:/b'], /--dry-run does nothing/],
  ['an environment without a path', () => [source, 'local:'], /'local:' needs a path after the colon/],
  ['an unknown environment', () => [source, 'nowhere:/b'], /unknown environment 'nowhere'/],
])('refuses %s', async (_name, args, message) => {
  const { code, stderr } = await user.run(['sync', ...args()]);
  expect(code).toBe(2);
  expect(stderr).toMatch(message);
});

test('a relative path is in the home directory of the environment of -E', async () => {
  writeFiles(source, { file: 'x' });
  expect(await user.run(['sync', '-E', 'local', source, ':of-home/there'])).toMatchObject({ code: 0 });
  expect(readFileSync(join(user.workspace.path, 'of-home/there/file'), 'utf8')).toBe('x');
});

test.each<[string, (path: string) => string[]]>([
  ['of an environment', (path) => [source, `local:${path}`]],
  ['of this machine', (path) => [`local:${source}`, path]],
])('refuses a destination %s that is a file or below one', async (_name, operands) => {
  writeFiles(dirname(destination), { notes: 'text' });
  const notes = join(dirname(destination), 'notes');
  for (const [path, reason] of [
    [notes, /^exec-server: DST '.*notes' is no directory; choose another path, or remove it\n$/],
    [
      join(notes, 'below'),
      /^exec-server: DST '.*below' cannot be created, because a file .*; choose another/,
    ],
  ] as const) {
    const { code, stderr } = await user.run(['sync', ...operands(path)]);
    expect([code, stderr]).toEqual([125, expect.stringMatching(reason)]);
  }
  expect(readFileSync(notes, 'utf8')).toBe('text');
});

test('refuses a file, and a destination inside the source', async () => {
  writeFiles(source, { file: 'x', 'sub/y': '' });
  const file = await user.run(['sync', join(source, 'file'), `local:${destination}`]);
  expect(file).toMatchObject({
    code: 125,
    stderr: expect.stringContaining("is no directory; 'exec-server cp' copies files"),
  });
  const nested = await user.run(['sync', source, `local:${join(source, 'sub')}`]);
  expect(nested).toMatchObject({ code: 125, stderr: expect.stringContaining('one contains the other') });
  expect(statSync(join(source, 'sub')).isDirectory()).toBe(true);
  expect(readdirSync(join(source, 'sub'))).toEqual(['y']);
});

test('refuses a missing destination inside the source, also one that a link leads to', async () => {
  writeFiles(source, { 'sub/y': '' });
  const link = join(dirname(destination), 'link-to-sub');
  symlinkSync(join(source, 'sub'), link);
  const refused = { code: 125, stderr: expect.stringContaining('one contains the other') };
  expect(await user.run(['sync', source, `local:${join(source, 'new', 'below')}`])).toMatchObject(refused);
  expect(await user.run(['sync', `local:${source}`, join(link, 'new')])).toMatchObject(refused);
  expect(readdirSync(source, { recursive: true }).sort()).toEqual(['sub', 'sub/y']);
});
