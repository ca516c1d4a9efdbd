import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type CertificateFiles, Certificates } from '../support/certificates.ts';
import { CommandUser } from '../support/private-server.ts';
import { CLI, firstLine } from '../unit/cli/run-cli.ts';

const user = new CommandUser();
const certificates = new Certificates();
afterAll(async () => {
  await user.close();
  certificates.remove();
});

const TOKEN = 'a-token-for-the-tests';
const token = user.workspace.file('token', `${TOKEN}\n`);
const wrongToken = user.workspace.file('wrong-token', 'another-token\n');
let plain: string;
let guarded: string;
let secure: string;
let ca: string;
let files: CertificateFiles;

beforeAll(async () => {
  const authority = certificates.authority('authority');
  files = certificates.signedBy(authority, 'server');
  ca = authority.cert;
  const auth = ['--ws-auth', 'capability-token', '--ws-token-file', token];
  [plain, guarded, secure] = (await Promise.all([
    firstLine(user.start(['serve'])),
    firstLine(user.start(['serve', ...auth])),
    firstLine(user.start(['serve', '-p', '0', '--tls-cert', files.cert, '--tls-key', files.key, ...auth])),
  ])) as [string, string, string];
});

async function reached(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const { code, stdout, stderr } = await user.run(['env', 'test', '--json', ...args], env);
  if (code !== 0) return { code, stderr };
  const { name, address } = JSON.parse(stdout);
  return { code, name, address };
}

test('run reaches a server with TLS and a token, and says what is missing without one', async () => {
  const program = ['--', 'sh', '-c', 'cat; exit 7'];
  const { child, outcome } = user.start(['run', '-E', secure, '--token-file', token, ...program], {
    SSL_CERT_FILE: ca,
  });
  child.stdin.end('through TLS\n');
  expect(await outcome).toMatchObject({ code: 7, stdout: 'through TLS\n', stderr: '' });
  expect(await user.run(['run', '-E', guarded, 'true'])).toMatchObject({
    code: 125,
    stderr: expect.stringMatching(/it needs a token: use --token-file or EXEC_SERVER_TOKEN\n$/),
  });
});

describe('env test', () => {
  test('reaches servers by URL, with a token from a variable or a file', async () => {
    expect(await reached([plain])).toEqual({ code: 0, name: plain, address: plain });
    expect(await reached(['-E', guarded, '--token-file', token])).toMatchObject({ code: 0 });
    const variables = { EXEC_SERVER_URL: guarded, EXEC_SERVER_TOKEN: TOKEN };
    expect(await reached([], variables)).toEqual({ code: 0, name: guarded, address: guarded });
    expect(await reached([], { ...variables, EXEC_SERVER_URL: secure, SSL_CERT_FILE: ca })).toMatchObject({
      code: 0,
    });
  });

  test('says that a name takes its token from a file, not from the variable', async () => {
    expect(await user.run(['env', 'add', 'tokenless', guarded])).toMatchObject({ code: 0 });
    const { code, stderr } = await user.run(['env', 'test', 'tokenless'], { EXEC_SERVER_TOKEN: TOKEN });
    expect([code, stderr]).toEqual([
      125,
      expect.stringMatching(
        /HTTP 401; it needs a token: use --token-file, here or with 'exec-server env add'; EXEC_SERVER_TOKEN is for URLs only\n$/,
      ),
    ]);
    expect(await user.run(['env', 'rm', 'tokenless'])).toMatchObject({ code: 0 });
    const variables = { EXEC_SERVER_URL: guarded, EXEC_SERVER_TOKEN: 'wrong' };
    expect(await user.run(['env', 'test'], variables)).toMatchObject({
      stderr: expect.stringContaining(
        'the token in EXEC_SERVER_TOKEN is wrong, expired or revoked; put a new',
      ),
    });
  });

  test('prints a table for people', async () => {
    const { stdout } = await user.run(['env', 'test', plain]);
    expect(stdout).toMatch(/^address +ws:.*\nchosen by +the argument\nconnected in +\d+ ms\nversion +\d/m);
  });

  test.concurrent.each<[string, () => string[], number, RegExp]>([
    [
      'no token',
      () => [guarded],
      125,
      /HTTP 401; it needs a token: use --token-file or EXEC_SERVER_TOKEN\n$/,
    ],
    [
      'a wrong token',
      () => [guarded, '--token-file', wrongToken],
      125,
      /HTTP 401; the token in \/.* is wrong, expired or revoked; put a new one there\n$/,
    ],
    [
      'a token file that is missing',
      () => [guarded, '--token-file', 'x'],
      125,
      /cannot read the token file .*\/x: no such file or directory; check the path\n$/,
    ],
    ['an empty token file', () => [guarded, '--token-file', '/dev/null'], 125, /does not contain a token/],
    [
      'an untrusted certificate',
      () => [secure],
      125,
      /is not trusted: .*; name the server with 'exec-server env add NAME URL --tls-ca FILE', or set SSL_CERT_FILE/,
    ],
    ['no server', () => ['ws://127.0.0.1:1'], 125, /cannot reach ws:\/\/127.0.0.1:1: connection refused; /],
    [
      'no such host',
      () => ['ws://no-such-host.invalid:1'],
      125,
      /cannot reach ws:\/\/no-such-host.invalid:1/,
    ],
    [
      'no such socket',
      () => ['unix:///no/socket'],
      125,
      /cannot reach unix:\/\/\/no\/socket: no such file or directory; /,
    ],
    ['ws to a TLS server', () => [secure.replace('wss', 'ws')], 125, /if the server uses TLS, write wss:/],
    ['wss to a plain server', () => [plain.replace('ws', 'wss')], 125, /does not speak TLS; use ws:/],
    [
      'an unknown name',
      () => ['nothing'],
      2,
      /unknown environment 'nothing' \(the argument\); 'exec-server env ls' lists them\n$/,
    ],
    ['a web URL', () => ['https://example.com'], 2, /write ws:\/\/ or wss:\/\/, or name a relay with/],
    ['another scheme', () => ['ftp://example.com'], 2, /'ftp:\/\/example.com' is no environment; write ws:/],
    ['a port without a host', () => ['ws://'], 2, /is not a URL/],
    ['a relative socket', () => ['unix://socket'], 2, /needs an absolute path; write unix:\/\/\/PATH/],
    ['a password in a URL', () => ['ws://me:secret@host'], 2, /must not contain a password/],
    ['an option in place of an ssh host', () => ['ssh://-oProxyCommand=x'], 2, /an ssh URL is ssh:\/\/HOST/],
    ['two names', () => [plain, '-E', plain], 2, /name the environment once/],
    ['a name behind --', () => ['--', 'x'], 2, /^exec-server env: unknown environment 'x'/],
  ])('says what to do about %s', async (_name, args, code, message) => {
    const { stderr, ...outcome } = await user.run(['env', 'test', ...args()]);
    expect(outcome).toMatchObject({ code, stdout: '' });
    expect(stderr).toMatch(message);
    expect(stderr).not.toContain('secret');
    expect(
      stderr
        .trimEnd()
        .split('\n')
        .filter((line) => !line.startsWith('Try ')),
    ).toHaveLength(1);
  });
});

test('names environments, lists, uses and removes them', async () => {
  expect(await user.run(['env', 'add', 'plain', plain])).toMatchObject({ code: 0, stdout: '' });
  expect(await user.run(['env', 'add', 'guarded', guarded, '--token-file', 'token'])).toMatchObject({
    code: 0,
  });
  expect(await reached(['guarded'])).toMatchObject({ code: 0, name: 'guarded' });
  // The token of a variable is not sent to a named server.
  expect(await reached(['plain'], { EXEC_SERVER_TOKEN: 'x' })).toMatchObject({ code: 0 });

  const codexHome = join(user.workspace.path, '.codex');
  mkdirSync(codexHome);
  writeFileSync(join(codexHome, 'environments.toml'), `[[environments]]\nid = "codex"\nurl = "${plain}"\n`);
  expect(await reached(['-E', 'codex'])).toMatchObject({ code: 0, name: 'codex', address: plain });

  expect(await user.run(['use', 'plain'])).toMatchObject({ code: 0, stdout: '', stderr: '' });
  expect(await reached([])).toMatchObject({ name: 'plain' });
  const { stdout } = await user.run(['env', 'ls']);
  expect(stdout.split('\n').map((line) => line.trim().split(/ {2,}/).slice(0, 3))).toEqual([
    ['NAME', 'ADDRESS', 'FILE'],
    ['local', "this machine's private server"],
    ['*', 'plain', plain],
    ['guarded', guarded, expect.stringContaining('environments.toml')],
    ['codex', plain, expect.stringContaining('.codex')],
    [''],
  ]);
  expect(await user.run(['use'])).toMatchObject({
    stdout: expect.stringMatching(/^plain\tws:.*\t'exec-server use' in \//),
  });
  for (const args of [[], ['plain']]) {
    expect(JSON.parse((await user.run(['use', '--json', ...args])).stdout)).toEqual({
      name: 'plain',
      address: plain,
      source: expect.stringContaining("'exec-server use'"),
    });
  }
  expect(await user.run(['use', '--unset'])).toMatchObject({ code: 0 });
  await user.run(['use', 'guarded', '--global']);
  expect(await reached([])).toMatchObject({ name: 'guarded' });
  expect(await user.run(['__complete', '--', 'use', ''])).toMatchObject({
    stdout: expect.stringMatching(/^none\nlocal\t.*\nplain\t.*\nguarded\t.*\ncodex\t/),
  });
  expect(await user.run(['env', 'rm', 'guarded'])).toMatchObject({ code: 0 });
  // A command that was meant for it must not run elsewhere.
  expect(await reached([])).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/unknown environment 'guarded'/),
  });
  expect(await user.run(['use', '--unset', '--global'])).toMatchObject({ code: 0 });
  expect(await user.run(['use'])).toMatchObject({ stdout: expect.stringMatching(/^local\t/) });
});

test('use holds in the directories below, and the nearest one counts', async () => {
  const at = (path: string) => join(user.workspace.path, path);
  mkdirSync(at('project/sub/deep'), { recursive: true });
  const inside = (folder: string, ...args: string[]) => {
    const env = { PATH: process.env.PATH, HOME: user.workspace.path, ...user.env };
    const options = { cwd: at(folder), env, encoding: 'utf8' } as const;
    const { status, stdout, stderr } = spawnSync(process.execPath, [CLI, ...args], options);
    expect({ status, stderr }).toEqual({ status: 0, stderr: expect.not.stringContaining('exec-server:') });
    return stdout;
  };
  const current = (folder: string) => inside(folder, 'use').split('\t')[0];
  for (const name of ['outer', 'inner']) inside('.', 'env', 'add', name, plain);
  inside('project', 'use', 'outer');
  inside('project/sub', 'use', 'inner');
  expect(['.', 'project', 'project/sub', 'project/sub/deep'].map(current)).toEqual([
    ...['local', 'outer', 'inner', 'inner'],
  ]);
  expect(inside('project/sub/deep', 'run', '-n', '--', 'echo', 'there')).toBe('there\n');
  expect(JSON.parse(inside('project/sub/deep', 'env', 'test', '--json'))).toMatchObject({ name: 'inner' });
  inside('project/sub', 'use', 'inner', '--global');
  const unset = await user.run(['use', '--unset']);
  expect(unset).toMatchObject({ code: 0, stderr: expect.stringMatching(/^inner is in use now \(\/.*\)\n$/) });
  inside('project/sub', 'use', '--unset', '--global');
  inside('project/sub', 'use', '--unset');
  expect(current('project/sub/deep')).toBe('outer');
  inside('project', 'use', '--unset');
  expect(current('project/sub/deep')).toBe('local');
});

test.concurrent.each<[string[], number, RegExp]>([
  [['env'], 2, /expected ls, add, test or rm\n/],
  [['env', 'list'], 2, /expected ls, add, test or rm, not 'list'/],
  [['env', 'add', 'x'], 2, /expected 'add NAME URL'/],
  [['env', 'add', 'local', 'ws://h'], 2, /the name 'local' is reserved/],
  [['env', 'add', 'x', 'https://relay'], 2, /a relay needs a token: add --token-file FILE/],
  [['env', 'add', 'x', 'ws://h', '--environment-id', 'e'], 2, /only for a relay/],
  [['env', 'add', 'x', 'ws://h', 'more'], 2, /unexpected argument 'more'/],
  [['env', 'rm', 'nothing'], 125, /the environment 'nothing' .*'exec-server env ls' lists them/],
  [['use', 'nothing'], 2, /unknown environment 'nothing'/],
  [['use', 'ws://h'], 2, /is not a name; add one with 'exec-server env add NAME URL'/],
  [['use', '--global'], 2, /--global needs a name or --unset/],
])('%j is refused', async (args, code, message) => {
  expect(await user.run(args)).toMatchObject({ code, stdout: '', stderr: expect.stringMatching(message) });
});

test('reaches an environment behind a relay with a certificate of its own authority', async () => {
  const secret = user.workspace.file('relay-secret', 's'.repeat(40));
  const tls = ['--tls-cert', files.cert, '--tls-key', files.key];
  const relay = await firstLine(user.start(['relay', '--secret-file', secret, ...tls]));
  expect(relay).toMatch(/^https:/);
  const tokenFor = async (role: string) => {
    const out = join(user.workspace.path, role);
    await user.run([
      'relay',
      'token',
      '--secret-file',
      secret,
      '--role',
      role,
      '--environment',
      'box',
      '--out',
      out,
    ]);
    return out;
  };
  const key = readFileSync(await tokenFor('executor'), 'utf8').trim();
  const executor = user.start(['serve', '--remote', relay, '--environment-id', 'box'], {
    EXEC_SERVER_API_KEY: key,
    SSL_CERT_FILE: ca,
  });
  let stderr = '';
  executor.child.stderr.on('data', (text) => {
    stderr += text;
  });
  await expect.poll(() => stderr).toMatch(/connected to 127\.0\.0\.1:\d+ as environment box/);
  const access = ['--token-file', await tokenFor('harness')];
  await user.run(['env', 'add', 'box', relay, ...access]);
  expect(await reached(['box'])).toEqual({
    code: 125,
    stderr: expect.stringMatching(
      /is not trusted: .*; name the server with 'exec-server env add NAME URL --tls-ca FILE'/,
    ),
  });
  expect(await reached(['box'], { SSL_CERT_FILE: ca })).toMatchObject({ code: 0 });
  await user.run(['env', 'rm', 'box']);
  await user.run(['env', 'add', 'box', relay, ...access, '--tls-ca', ca]);
  expect(await reached(['box'])).toEqual({ code: 0, name: 'box', address: `box at ${relay}` });
  expect(await user.run(['run', '-E', 'box', '--', 'sh', '-c', 'echo there; exit 7'])).toMatchObject({
    code: 7,
    stdout: 'there\n',
    stderr: '',
  });
});
