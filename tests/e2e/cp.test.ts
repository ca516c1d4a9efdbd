import { spawnSync } from 'node:child_process';
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
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { PassThrough } from 'node:stream';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Host } from '../../src/cli/commands.ts';
import { cpCommand } from '../../src/cli/files/cp-command.ts';
import { Certificates } from '../support/certificates.ts';
import { newFolder } from '../support/file-trees.ts';
import { CommandUser } from '../support/private-server.ts';
import { firstLine } from '../unit/cli/run-cli.ts';

const user = new CommandUser();
/** A folder for each test; the working directory of the commands is the home of the private server. */
let folder: string;
beforeEach(() => {
  folder = newFolder(user);
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));
afterAll(() => user.close());

const at = (name: string) => join(folder, name);
const cp = (...args: string[]) => user.run(['cp', ...args]);

async function copied(...args: string[]) {
  const { code, stdout, stderr } = await cp('--json', ...args);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return JSON.parse(stdout);
}

/** Everything below a directory: modes, times in milliseconds, targets and contents. */
function state(top: string): unknown {
  const entries: Record<string, unknown> = {};
  const visit = (path: Buffer, name: string) => {
    const stats = lstatSync(path);
    const about = [stats.mode.toString(8), stats.isSymbolicLink() ? null : Math.floor(stats.mtimeMs)];
    if (stats.isSymbolicLink()) entries[name] = [...about, readlinkSync(path, 'latin1')];
    else if (stats.isFile()) entries[name] = [...about, readFileSync(path, 'latin1')];
    else {
      entries[name] = about;
      for (const child of readdirSync(path, { encoding: 'buffer' })) {
        visit(Buffer.concat([path, Buffer.from('/'), child]), `${name}/${child.toString('latin1')}`);
      }
    }
  };
  visit(Buffer.from(top), '');
  return entries;
}

test('-q shows no progress on a terminal', async () => {
  writeFileSync(at('file'), 'x'.repeat(100));
  await cp(at('file'), `local:${at('first')}`);
  const shown = async (...flags: string[]) => {
    const stderr = Object.assign(new PassThrough({ encoding: 'utf8' }), { isTTY: true });
    const env = { ...user.env, HOME: user.workspace.path };
    const host = { env, stderr, onSignal() {} } as unknown as Host;
    const { exitCode } = await cpCommand([...flags, at('file'), `local:${at('copy')}`], host);
    return [exitCode, stderr.read()];
  };
  expect(await shown()).toEqual([0, expect.stringMatching(/^\r\d+%/)]);
  expect(await shown('-q')).toEqual([0, null]);
});

test('replaces no FIFO or device of this machine', async () => {
  mkdirSync(at('tree'));
  mkdirSync(at('down/tree'), { recursive: true });
  for (const name of ['file', 'tree/pipe', 'tree/plain']) writeFileSync(at(name), 'x');
  symlinkSync('plain', at('tree/also-pipe'));
  const pipes = ['pipe', 'down/tree/pipe', 'down/tree/also-pipe'];
  spawnSync('mkfifo', pipes.map(at));
  symlinkSync('pipe', at('link'));
  for (const name of ['pipe', 'link']) {
    const { code, stderr } = await cp(`local:${at('file')}`, at(name));
    expect({ code, stderr }).toEqual({
      code: 125,
      stderr: `exec-server: cannot write ${at(name)} of this machine: it is not a regular file; choose another path\n`,
    });
  }
  const { code, stderr } = await cp('-r', `local:${at('tree')}`, at('down'));
  expect(code).toBe(125);
  for (const name of pipes.slice(1)) expect(stderr).toContain(`${at(name)} of this machine: it is not a reg`);
  expect(pipes.map((name) => lstatSync(at(name)).isFIFO())).toEqual([true, true, true]);
  expect(readlinkSync(at('link'))).toBe('pipe');
  expect(readFileSync(at('down/tree/plain'), 'utf8')).toBe('x');
});

test('copies a tree there and back with links, modes, times and odd names', async () => {
  mkdirSync(at('tree/closed/empty'), { recursive: true });
  const names = [
    'plain',
    'a\nb',
    `quotes'"`,
    '😀',
    '-rf',
    'a:b',
    '%41',
    ' ',
    'n'.repeat(255),
    Buffer.from([0x61, 0xff, 0x0a]),
  ];
  for (const name of names) {
    writeFileSync(Buffer.concat([Buffer.from(at('tree/')), Buffer.from(name)]), String(name));
  }
  writeFileSync(at('tree/closed/secret'), 'x', { mode: 0o400 });
  chmodSync(at('tree/plain'), 0o755);
  const links = { dangling: 'none', absolute: '/etc/hostname', loop: 'loop', up: '..', dir: 'closed' };
  for (const [name, target] of Object.entries(links)) symlinkSync(target, at(`tree/${name}`));
  for (const name of ['plain', 'closed/empty', 'closed/secret', 'closed', '.']) {
    utimesSync(at(`tree/${name}`), 1, 1_000_000_000.123);
  }
  chmodSync(at('tree/closed'), 0o555);
  expect(await copied('-rp', at('tree'), `local:${folder}/there`)).toMatchObject({
    files: 11,
    directories: 3,
    links: 5,
    failed: [],
    skipped: [],
    verified: 'sha256',
  });
  await copied('-rp', `local:${folder}/there`, at('back'));
  expect(state(at('there'))).toEqual(state(at('tree')));
  expect(state(at('back'))).toEqual(state(at('tree')));
  // From one environment to another, over what is there already.
  await copied('-rp', `local:${folder}/there/.`, `unix://${user.folder}/server.sock:${folder}/back`);
  expect(state(at('back'))).toEqual(state(at('tree')));
  // Without -p the times are new.
  await copied('-r', at('tree'), `local:${folder}/now`);
  expect(statSync(at('now/plain')).mtimeMs).toBeGreaterThan(1_000_000_001_000);
  for (const name of ['tree', 'there', 'back', 'now']) chmodSync(at(`${name}/closed`), 0o755);
}, 60_000);

test('follows the rules of cp for directories, names and relative paths', async () => {
  mkdirSync(at('dir/sub'), { recursive: true });
  writeFileSync(at('dir/sub/file'), 'x');
  writeFileSync(at('one'), '1');
  writeFileSync(at('two'), '2');
  const relative = basename(folder);
  await copied(at('one'), `local:${relative}/copy`);
  await copied(at('one'), at('two'), `local:${relative}/dir`);
  await copied('-r', `local:${relative}/dir`, `local:~/${relative}/new/`);
  await copied('-r', `local:${relative}/dir/`, at('new'));
  expect(readFileSync(at('copy'), 'utf8')).toBe('1');
  expect(readdirSync(at('dir')).sort()).toEqual(['one', 'sub', 'two']);
  expect(readdirSync(at('new')).sort()).toEqual(['dir', 'one', 'sub', 'two']);
  writeFileSync(join(user.workspace.path, 'a:b'), 'colon');
  await copied('./a:b', `local:${relative}/with:colon`);
  expect(readFileSync(at('with:colon'), 'utf8')).toBe('colon');
  // The environment of -E.
  await copied('-E', 'local', at('one'), `:${folder}/default`);
  expect(readFileSync(at('default'), 'utf8')).toBe('1');
  rmSync(join(user.workspace.path, 'a:b'));
});

test.each<[string, () => string[], number, RegExp]>([
  ['one path', () => ['local:x'], 2, /needs a source and a destination/],
  ['no environment', () => [at('a'), at('b')], 2, /no path is in an environment; write ENV:PATH/],
  ['an unknown environment', () => [at('file'), 'nowhere:x'], 2, /unknown environment 'nowhere'/],
  ['a URL without a path', () => [at('file'), 'ws://127.0.0.1:1'], 2, /has no path; write URL:PATH/],
  ['an empty path', () => ['', 'local:x'], 2, /must not be empty/],
  ['stdout', () => ['local:/etc/hostname', '-'], 2, /does not write to stdout; .*Write \.\/- for a file/],
  ['stdin', () => ['-', `local:${folder}/x`], 2, /does not read stdin; .*Write \.\/- for a file/],
  [
    'a destination below a file there',
    () => [at('file'), `local:${folder}/file/x`],
    125,
    /^exec-server: '.*file\/x' cannot be created, because a file .*; choose another path\n$/,
  ],
  [
    'a destination below a file here',
    () => [`local:${folder}/file`, at('file/x')],
    125,
    /^exec-server: '.*file\/x' cannot be created, because a file .*; choose another path\n$/,
  ],
  [
    'a missing source',
    () => [at('missing'), `local:${folder}/x`],
    125,
    /missing' does not exist; check the path\n$/,
  ],
  [
    'a destination that cannot be created',
    () => ['/etc/hostname', 'local:/proc/foo'],
    125,
    /cannot upload to \/proc\/foo: No such file or directory\n$/,
  ],
  ['a directory without -r', () => [at('dir'), `local:${folder}/x`], 125, /is a directory; add -r/],
  [
    'a directory onto a file',
    () => ['-r', at('dir'), `local:${folder}/file`],
    125,
    /is a file, and .* is a directory/,
  ],
  [
    'several sources for a missing directory',
    () => [at('file'), at('file'), `local:${folder}/x`],
    125,
    /does not exist, and several sources need a directory; create it first/,
  ],
  [
    'a file for a missing directory',
    () => [at('file'), `local:${folder}/x/`],
    125,
    /is not a directory; create it/,
  ],
  ['a file onto itself', () => [at('file'), `local:${folder}/./file`], 125, /are the same file/],
  [
    'a directory into itself',
    () => ['-r', at('dir'), `local:${folder}/dir`],
    125,
    /cannot be copied into itself/,
  ],
  [
    'a directory into itself, in the default environment',
    () => ['-r', at('dir'), `:${folder}/dir/below`],
    125,
    /cannot be copied into itself/,
  ],
  [
    'a source that cannot be looked at',
    () => [at('dir/loop/x'), `local:${folder}/x`],
    125,
    /^exec-server: cannot read '.*dir\/loop\/x': too many symbolic links encountered\n$/,
  ],
  [
    'two sources with the same name',
    () => [at('file'), at('dir/file'), `local:${folder}/target/`],
    125,
    /^exec-server: '.*\/file' and '.*dir\/file' have the same name in 'local:.*target\/'; copy them to different/,
  ],
])('refuses %s, and changes nothing', async (_name, args, code, message) => {
  mkdirSync(at('dir'));
  mkdirSync(at('target'));
  writeFileSync(at('file'), 'x');
  writeFileSync(at('dir/file'), 'y');
  symlinkSync('loop', at('dir/loop'));
  const before = state(folder);
  const outcome = await cp(...args());
  expect([outcome.code, outcome.stdout]).toEqual([code, '']);
  expect(outcome.stderr).toMatch(message);
  expect(state(folder)).toEqual(before);
});

test('goes on after a path that fails, and says which', async () => {
  mkdirSync(at('tree'));
  for (const name of ['a', 'b', 'c']) writeFileSync(at(`tree/${name}`), name);
  mkdirSync(at('there/b/in-the-way'), { recursive: true });
  spawnSync('mkfifo', [at('tree/fifo')]);
  const { code, stderr } = await cp('-r', `${folder}/tree/.`, `local:${folder}/there`);
  expect(code).toBe(125);
  expect(stderr.split('\n').sort()).toEqual([
    '',
    expect.stringMatching(/^exec-server cp: cannot upload to .*there\/b: Is a directory/),
    `exec-server cp: skipped ${at('tree/fifo')}: neither a file nor a directory`,
  ]);
  expect(readdirSync(at('there')).sort()).toEqual(['a', 'b', 'c']);
});

test.each<[string, () => string[]]>([
  ['to', () => [at('tree'), `local:${folder}/there`]],
  ['from', () => [`local:${folder}/tree`, at('there')]],
])('does not succeed when it skips a FIFO on the way %s an environment', async (_name, operands) => {
  mkdirSync(at('tree'));
  writeFileSync(at('tree/file'), 'x');
  spawnSync('mkfifo', [at('tree/fifo')]);
  const { code, stderr } = await cp('-r', ...operands());
  expect([code, stderr]).toEqual([
    125,
    expect.stringMatching(/^exec-server cp: skipped .*tree\/fifo: .*\n$/),
  ]);
  expect(readdirSync(at('there'))).toEqual(['file']);
});

describe('over TLS with a token', () => {
  const certificates = new Certificates();
  let url: string;
  beforeAll(async () => {
    const authority = certificates.authority('authority');
    const files = certificates.signedBy(authority, 'server');
    const secret = user.workspace.file('secret', 'a secret of more than thirty-two bytes');
    url = await firstLine(
      user.start([
        ...['serve', '-p', '0', '--tls-cert', files.cert, '--tls-key', files.key],
        ...['--ws-auth', 'signed-bearer-token', '--ws-shared-secret-file', secret],
      ]),
    );
    const limits: [name: string, flags: string[]][] = [
      ['all', []],
      ['below', ['--scope', 'files', '--path', user.workspace.path]],
      ['reader', ['--scope', 'read-only']],
    ];
    for (const [name, flags] of limits) {
      const token = await user.run(['token', 'signed', '--secret-file', secret, ...flags]);
      const file = user.workspace.file(`${name}.token`, token.stdout);
      const added = await user.run([
        'env',
        'add',
        name,
        url,
        '--token-file',
        file,
        '--tls-ca',
        authority.cert,
      ]);
      expect(added).toMatchObject({ code: 0 });
    }
  });
  afterAll(() => certificates.remove());

  const makeTree = () => {
    mkdirSync(at('tree/dir'), { recursive: true });
    writeFileSync(at('tree/dir/file'), 'x', { mode: 0o640 });
    symlinkSync('dir', at('tree/link'));
  };

  test('copies there and back', async () => {
    makeTree();
    await copied('-rp', at('tree'), `all:${folder}/there`);
    await copied('-rp', `all:${folder}/there`, at('back'));
    expect(state(at('back'))).toEqual(state(at('tree')));
  });

  test('a token that is limited to a directory cannot create links, which are skipped and named', async () => {
    makeTree();
    const { code, stdout } = await cp('--json', '-rp', at('tree'), `below:${folder}/there`);
    expect(code).toBe(125);
    expect(JSON.parse(stdout)).toMatchObject({
      files: 1,
      links: 0,
      skipped: [{ path: at('tree/link'), reason: expect.stringContaining('the token does not allow') }],
    });
    expect(statSync(at('there/dir/file')).mode & 0o777).toBe(0o640);
    await copied('-rp', `below:${folder}/tree`, at('back'));
    expect(state(at('back'))).toEqual(state(at('tree')));
  });

  test('a token that may only read cannot write', async () => {
    makeTree();
    const { code, stderr } = await cp('-r', at('tree'), `reader:${folder}/there`);
    expect([code, stderr]).toEqual([
      125,
      expect.stringMatching(/the token does not allow fs\/createDirectory/),
    ]);
    expect(existsSync(at('there'))).toBe(false);
  });
});
