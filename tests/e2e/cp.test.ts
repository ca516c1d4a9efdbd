import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
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
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { startServer, type TestServer } from '../../src/testing/index.ts';
import { Certificates } from '../support/certificates.ts';
import { MessageProxy, type PassingMessage } from '../support/message-proxy.ts';
import { CommandUser } from '../support/private-server.ts';
import { waitFor } from '../support/wait-for.ts';
import { firstLine } from '../unit/cli/run-cli.ts';

const MIB = 1024 * 1024;
const user = new CommandUser();
/** A folder for each test; the working directory of the commands is the home of the private server. */
let folder: string;
let tests = 0;
beforeEach(() => {
  folder = join(user.workspace.path, `test${++tests}`);
  mkdirSync(folder);
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
  const relative = `test${tests}`;
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
  ['a missing source', () => [at('missing'), `local:${folder}/x`], 125, /missing' does not exist/],
  ['a directory without -r', () => [at('dir'), `local:${folder}/x`], 125, /is a directory; add -r/],
  [
    'a directory onto a file',
    () => ['-r', at('dir'), `local:${folder}/file`],
    125,
    /is a file, and .* is a directory/,
  ],
  [
    'several sources for a file',
    () => [at('file'), at('file'), `local:${folder}/x`],
    125,
    /is not a directory; several/,
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
])('refuses %s, and changes nothing', async (_name, args, code, message) => {
  mkdirSync(at('dir'));
  writeFileSync(at('file'), 'x');
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

describe('a large file', () => {
  const SIZE = 24 * MIB;
  let server: TestServer;
  beforeAll(async () => {
    server = await startServer();
  });
  afterAll(() => server.close());

  const makeLarge = () => {
    const content = randomBytes(SIZE);
    writeFileSync(at('large'), content);
    mkdirSync(at('there'));
    return content;
  };
  /** Where the blocks begin that came after the first connection was lost. */
  const laterOffsets = (proxy: MessageProxy) =>
    proxy.log
      .filter((message) => message.connection > 0 && isBlock(message))
      .map(({ text }) => Number(/"offset":(\d+)/.exec(text.slice(0, 300) + text.slice(-300))![1]));

  test('continues in the same command when the connection is cut', async () => {
    const content = makeLarge();
    const proxy = await MessageProxy.open(server.url, (message) =>
      message.connection === 0 && isBlock(message) && blocksOf(proxy, 0) === 10 ? 'swallow' : 'pass',
    );
    try {
      const { code, stdout } = await cp('--json', at('large'), `${proxy.url}:${folder}/there/large`);
      expect(code).toBe(0);
      expect(JSON.parse(stdout).resumedBytes).toBeGreaterThanOrEqual(5 * MIB);
      expect(readFileSync(at('there/large')).equals(content)).toBe(true);
      expect(readdirSync(at('there'))).toEqual(['large']);
      // What the server had was not sent again.
      expect(Math.min(...laterOffsets(proxy))).toBe(JSON.parse(stdout).resumedBytes);
    } finally {
      await proxy.close();
    }
  });

  test.each(['SIGKILL', 'SIGINT'] as const)('continues in the next command after %s', async (signal) => {
    const content = makeLarge();
    let kill = () => {};
    const proxy = await MessageProxy.open(server.url, (message) => {
      if (message.connection > 0 || !isBlock(message) || blocksOf(proxy, 0) < 10) return 'pass';
      kill();
      return 'drop';
    });
    try {
      const target = `${proxy.url}:${folder}/there/large`;
      const first = user.start(['cp', at('large'), target]);
      kill = () => void first.child.kill(signal);
      const outcome = await first.outcome;
      if (signal === 'SIGINT') {
        expect(outcome.code).toBe(130);
        expect(outcome.stderr).toMatch(
          /interrupted; files that were copied are complete; run the same command to continue with the part .*\.part\n$/,
        );
      }
      await waitFor('the part', () => readdirSync(at('there')).every((name) => name.endsWith('.part')));
      const second = await copied(at('large'), target);
      expect(second.resumedBytes).toBeGreaterThanOrEqual(5 * MIB);
      expect(Math.min(...laterOffsets(proxy))).toBe(second.resumedBytes);
      expect(readFileSync(at('there/large')).equals(content)).toBe(true);
      expect(readdirSync(at('there'))).toEqual(['large']);
    } finally {
      await proxy.close();
    }
  });

  test('continues a download of a process that was killed', async () => {
    const content = makeLarge();
    let kill = () => {};
    const reads = (isLater: boolean) =>
      proxy.log.filter(
        ({ connection, text }) => connection > 0 === isLater && text.includes('"fs/readBlock"'),
      );
    const proxy = await MessageProxy.open(server.url, ({ connection, direction }) => {
      if (connection > 0 || direction === 'toServer' || reads(false).length < 12) return 'pass';
      kill();
      return 'drop';
    });
    try {
      const source = `${proxy.url}:${folder}/large`;
      const first = user.start(['cp', source, at('there/large')]);
      kill = () => void first.child.kill('SIGKILL');
      await first.outcome;
      expect(readdirSync(at('there'))).toEqual([expect.stringMatching(/^\.large\..*\.part$/)]);
      const second = await copied(source, at('there/large'));
      expect(second.resumedBytes).toBeGreaterThanOrEqual(5 * MIB);
      const firstOffset = Number(/"offset":(\d+)/.exec(reads(true)[0]!.text)![1]);
      expect(firstOffset).toBe(second.resumedBytes);
      expect(readFileSync(at('there/large')).equals(content)).toBe(true);
      expect(readdirSync(at('there'))).toEqual(['large']);
    } finally {
      await proxy.close();
    }
  });

  test('starts again when what is there is not its beginning', async () => {
    const content = makeLarge();
    const proxy = await MessageProxy.open(server.url, (message) =>
      message.connection === 0 && isBlock(message) && blocksOf(proxy, 0) === 10 ? 'last' : 'pass',
    );
    const target = `${server.url}:${folder}/there/large`;
    try {
      const first = user.start(['cp', at('large'), `${proxy.url}:${folder}/there/large`]);
      await waitFor('a part', () => readdirSync(at('there')).length > 0 && blocksOf(proxy, 0) >= 10);
      first.child.kill('SIGKILL');
      await first.outcome;
    } finally {
      await proxy.close();
    }
    const [part] = readdirSync(at('there'));
    writeFileSync(at(`there/${part}`), Buffer.alloc(6 * MIB, 'wrong'));
    expect(await copied(at('large'), target)).toMatchObject({ files: 1, bytes: SIZE });
    expect(readFileSync(at('there/large')).equals(content)).toBe(true);
    expect(readdirSync(at('there'))).toEqual(['large']);
  });

  test('leaves nothing on a disk that gets full', async ({ skip }) => {
    const disk = at('disk');
    mkdirSync(disk);
    const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=4m', 'tmpfs', disk]).status === 0;
    if (!mounted) skip('this system does not allow to mount a tmpfs');
    try {
      makeLarge();
      writeFileSync(at('medium'), randomBytes(5 * MIB));
      writeFileSync(join(disk, 'large'), 'old');
      for (const name of ['large', 'medium']) {
        for (const args of [
          [at(name), `local:${disk}/large`],
          [`local:${at(name)}`, join(disk, 'large')],
        ]) {
          const { code, stderr } = await cp(...args);
          expect([code, stderr]).toEqual([125, expect.stringMatching(/no space left on device/i)]);
          expect(stderr).not.toMatch(/continue with the part/);
          if (name === 'large')
            expect(stderr).toMatch(/; the incomplete copy was removed, so the same command/);
          expect(readdirSync(disk)).toEqual(['large']);
          expect(readFileSync(join(disk, 'large'), 'utf8')).toBe('old');
        }
      }
    } finally {
      spawnSync('umount', ['-l', disk]);
    }
  });
});

function isBlock({ direction, text }: PassingMessage): boolean {
  return direction === 'toServer' && text.slice(0, 100).includes('"fs/writeBlock"');
}

function blocksOf(proxy: MessageProxy, connection: number): number {
  return proxy.log.filter((message) => message.connection === connection && isBlock(message)).length;
}

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
