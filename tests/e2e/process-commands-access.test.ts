import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ExecServerClient } from '../../src/client/index.ts';
import { signToken } from '../../src/server/auth/signed-token.ts';
import { Certificates } from '../support/certificates.ts';
import { CommandUser } from '../support/private-server.ts';
import { firstLine } from '../unit/cli/run-cli.ts';

const SECRET = 'a secret of more than thirty-two bytes';
const user = new CommandUser();
const certificates = new Certificates();
let url: string;
let client: ExecServerClient;

const authority = certificates.authority('authority');
const own = certificates.signedBy(authority, 'client');

/** A file with a token. Its name is that of an environment, too. */
function tokenFile(name: string, sub: string, ...scopes: string[]): string {
  const exp = Math.floor(Date.now() / 1_000) + 600;
  const claims = { exp, sub, ...(scopes.length > 0 && { exec_server: { scopes } }) };
  return user.workspace.file(name, signToken(claims, SECRET));
}

beforeAll(async () => {
  const files = certificates.signedBy(authority, 'server');
  const secret = user.workspace.file('secret', SECRET);
  url = await firstLine(
    user.start([
      ...['serve', '-p', '0', '--tls-cert', files.cert, '--tls-key', files.key],
      ...['--tls-client-ca', authority.cert],
      ...['--ws-auth', 'signed-bearer-token', '--ws-shared-secret-file', secret],
    ]),
  );
  const tls = ['--tls-ca', authority.cert, '--tls-cert', own.cert, '--tls-key', own.key];
  const tokens = {
    ana: tokenFile('ana', 'ana'),
    bo: tokenFile('bo', 'bo'),
    viewer: tokenFile('viewer', 'ana', 'observe'),
    guest: tokenFile('guest', 'guest', 'observe'),
    files: tokenFile('files', 'ana', 'files'),
  };
  const added = Object.entries(tokens).map(([name, file]) =>
    user.run(['env', 'add', name, url, '--token-file', file, ...tls]),
  );
  for (const outcome of await Promise.all(added)) expect(outcome).toMatchObject({ code: 0 });
  client = await ExecServerClient.connect({
    url,
    authToken: readFileSync(tokens.ana, 'utf8'),
    tls: {
      ca: readFileSync(authority.cert),
      cert: readFileSync(own.cert),
      key: readFileSync(own.key),
    },
  });
  await client.spawn('echo output; sleep 60', { detached: true, name: 'job' });
});
afterAll(async () => {
  await client?.close();
  await user.close();
  certificates.remove();
});

const names = async (...args: string[]) => {
  const { stdout, stderr } = await user.run(['ps', '--json', ...args]);
  if (stdout === '') throw new Error(stderr);
  return JSON.parse(stdout).map(({ name }: { name: string }) => name);
};

test('commands use environments with client certificates and tokens', async () => {
  expect(await names('-E', 'ana')).toEqual(['job']);
  expect(await names('-E', 'viewer')).toEqual(['job']);
  expect(await names('-E', 'bo')).toEqual([]);
  const owners = await user.run(['ps', '-E', 'viewer', '--all-owners']);
  expect(owners.stdout).toMatch(/^REF +NAME +OWNER +STATE.*\n\w+ +job +ana +running /);
});

test('a token for observers reads, and changes nothing', async () => {
  await client.processes.get('job');
  expect(await user.run(['logs', '-E', 'viewer', 'job'])).toMatchObject({ code: 0, stdout: 'output\n' });
  for (const args of [['kill'], ['kill', '-s', 'TERM'], ['kill', '-9'], ['kill', '-SIGTERM'], ['rm', '-f']]) {
    expect(await user.run([...args, '-E', 'viewer', 'job'])).toMatchObject({
      ...{ code: 125, stdout: '' },
      stderr: expect.stringMatching(
        /^exec-server: the token does not allow process\/\w+: it needs the scope `?exec`?/,
      ),
    });
  }
  expect((await client.processes.get('job')).state).toBe('running');
});

test('a token for observers of another subject does not end a program, and the error says whose it is', async () => {
  const { ref } = await client.processes.get('job');
  expect(await user.run(['logs', '-E', 'guest', ref!])).toMatchObject({ code: 0, stdout: 'output\n' });
  expect(await user.run(['kill', '-E', 'guest', ref!])).toMatchObject({
    code: 125,
    stderr: `exec-server: the process '${ref}' belongs to the owner 'ana', and this token may only read it; use a token of that owner with the scope exec\n`,
  });
  expect((await client.processes.get('job')).state).toBe('running');
});

test.each<[string, string[], RegExp]>([
  [
    'a token without the scope',
    ['ps', '-E', 'files'],
    /the token does not allow process\/list: it needs the scope/,
  ],
  ['the processes of others', ['ps', '-E', 'bo', '--all-owners'], /it needs the scope `?observe/],
  ['a process of another owner', ['logs', '-E', 'bo', 'job'], /no process has the reference or name 'job'/],
  [
    'a token of nobody',
    ['ps', '-E', 'ana', '--token-file', 'secret'],
    /HTTP 401; the token in \/.*\/secret is wrong, expired or revoked; put a new one there|does not contain a token/,
  ],
])('refuses %s', async (_name, args, message) => {
  const { code, stdout, stderr } = await user.run(args);
  expect([code, stdout]).toEqual([125, '']);
  expect(stderr).toMatch(message);
});

test.each<[string, () => string[], number, RegExp]>([
  [
    'a certificate without its key',
    () => ['wss://x', '--tls-cert', own.cert],
    2,
    /--tls-cert and --tls-key need each other/,
  ],
  [
    'TLS for a plain URL',
    () => ['ws://x', '--tls-ca', authority.cert],
    2,
    /are for wss:\/\/ and https:\/\/ URLs/,
  ],
  [
    'a file that is missing',
    () => ['wss://x', '--tls-ca', 'missing'],
    125,
    /cannot read .*missing: no such file or directory; check the path/,
  ],
  [
    'a key of another certificate',
    () => ['wss://x', '--tls-cert', own.cert, '--tls-key', authority.key],
    125,
    /cannot be used: .*; write PEM files/,
  ],
])('env add refuses %s', async (_name, args, code, message) => {
  const { stderr, ...outcome } = await user.run(['env', 'add', 'other', ...args()]);
  expect(outcome).toEqual({ code, signal: null, stdout: '' });
  expect(stderr).toMatch(message);
  expect((await user.run(['env', 'ls'])).stdout).not.toContain('other');
});

test('without the client certificate the server refuses', async () => {
  const file = user.workspace.file('token', readFileSync(`${user.workspace.path}/ana`, 'utf8'));
  await user.run(['env', 'add', 'half', url, '--token-file', file, '--tls-ca', authority.cert]);
  const { code, stderr } = await user.run(['ps', '-E', 'half']);
  expect([code, stderr]).toEqual([
    125,
    `exec-server: ${url} requires a client certificate; name the server with 'exec-server env add NAME URL --tls-cert FILE --tls-key FILE'\n`,
  ]);
});
