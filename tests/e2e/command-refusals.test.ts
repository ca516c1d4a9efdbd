import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { startServer, type TestServer } from '../../src/testing/index.ts';
import { Certificates } from '../support/certificates.ts';
import { collect } from '../support/collect.ts';
import { MessageProxy } from '../support/message-proxy.ts';
import { CommandUser } from '../support/private-server.ts';
import { SshMachine } from '../support/ssh-machine.ts';
import { sshMissing } from '../support/sshd.mjs';
import { waitFor } from '../support/wait-for.ts';
import { CLI, firstLine } from '../unit/cli/run-cli.ts';

const user = new CommandUser();
const certificates = new Certificates();
const at = (name: string) => join(user.workspace.path, name);
let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(async () => {
  await server.close();
  await user.close();
  certificates.remove();
});

describe('a token', () => {
  const secret = user.workspace.file('secret', 'a secret of more than thirty-two bytes');
  const auth = ['--ws-auth', 'signed-bearer-token', '--ws-shared-secret-file', secret];
  const strict = ['--ws-max-clock-skew-seconds', '0', '--close-on-token-expiry'];
  let url: string;
  beforeAll(async () => {
    url = await firstLine(user.start(['serve', ...auth, ...strict]));
  });
  const token = async (name: string, ...flags: string[]) => {
    const command = ['token', 'signed', '--secret-file', secret, ...flags, '--out', name];
    expect(await user.run(command)).toMatchObject({ code: 0 });
    return name;
  };

  test('that expires ends run with 125 and the reason, and later commands are refused', async () => {
    const file = await token('short', '--expires-in', '3s');
    const given = ['-E', url, '--token-file', file];
    const program = ['--', 'sh', '-c', 'echo started; exec sleep 1000'];
    const started = user.start(['run', ...given, '--name', 'job', ...program]);
    const printed = collect(started);
    await waitFor('the program', () => printed.stdout === 'started\n');
    const { code, stderr } = await started.outcome;
    expect([code, stderr.trimEnd().split('\n').at(-1)]).toEqual([
      125,
      expect.stringMatching(/^exec-server: lost the server: .*token.*expired/),
    ]);
    for (const command of [['ps'], ['cp', `${url}:/etc/hostname`, 'copy']]) {
      const [name, ...operands] = command as [string, ...string[]];
      const flags = name === 'cp' ? ['--token-file', file] : given;
      const late = await user.run([name, ...flags, ...operands]);
      expect(late).toMatchObject({ code: 125, stdout: '' });
      expect(late.stderr).toMatch(
        /^exec-server: .*HTTP 401; the token in \/.*short is wrong, expired or revoked; put a new one there\n$/,
      );
    }
  });
});

describe('a certificate', () => {
  test.each([
    [
      'of another host name',
      'DNS:other.example',
      /is not trusted: .*other\.example.*; connect by a host name that the certificate lists\n$/,
    ],
  ])('%s is refused with what to do', async (_what, subject, message) => {
    const authority = certificates.authority('authority');
    const { cert, key } = certificates.signedBy(authority, 'other', subject);
    const url = await firstLine(user.start(['serve', '-p', '0', '--tls-cert', cert, '--tls-key', key]));
    const { code, stdout, stderr } = await user.run(
      ['run', '-E', url.replace('127.0.0.1', 'localhost'), 'true'],
      {
        SSL_CERT_FILE: authority.cert,
      },
    );
    expect([code, stdout, stderr]).toEqual([125, '', expect.stringMatching(message)]);
  });
});

describe('a server without the capabilities of this one', () => {
  let other: MessageProxy;
  beforeAll(async () => {
    other = await MessageProxy.open(server.url, ({ direction, text }) => {
      const message = direction === 'toClient' ? JSON.parse(text) : {};
      const found = message.result?.environmentInfo ?? message.result;
      if (found?.capabilities === undefined) return 'pass';
      found.capabilities = {};
      return { text: JSON.stringify(message) };
    });
  });
  afterAll(() => other.close());

  test('runs programs, and its files are copied from it', async () => {
    const ran = await user.run(['run', '-n', '-E', other.url, '--', 'sh', '-c', 'echo out; exit 3']);
    expect(ran).toMatchObject({ code: 3, stdout: 'out\n', stderr: '' });
    writeFileSync(at('file'), 'content');
    const copied = await user.run(['cp', `${other.url}:${at('file')}`, at('copied')]);
    expect(copied).toMatchObject({ code: 0, stderr: '' });
    expect(readFileSync(at('copied'), 'utf8')).toBe('content');
  });

  test.each<[string, string[]]>([
    ['run -d', ['run', '-d', 'true']],
    ['run --name', ['run', '--name', 'job', 'true']],
    ['run --record', ['run', '--record', 'true']],
    ['run --timeout', ['run', '--timeout', '1s', 'true']],
    ['ps', ['ps']],
    ['attach', ['attach', 'job']],
    ['logs', ['logs', 'job']],
    ['wait', ['wait', 'job']],
    ['kill', ['kill', 'job']],
    ['rm', ['rm', 'job']],
    ['recordings', ['recordings']],
    ['export', ['export', 'job']],
    ['port-forward', ['port-forward', '0:1']],
  ])('%s says what the server lacks', async (_name, [command, ...operands]) => {
    const { code, stdout, stderr } = await user.run([command!, '-E', other.url, ...operands]);
    expect([code, stdout]).toEqual([125, '']);
    expect(stderr).toMatch(/^exec-server.*(?:the server|it) (?:does not|cannot|lacks).*\n$/);
  });

  test.each([
    ['sync', /cannot synchronize: it lacks .*; update it\n$/],
    ['cp', /the server cannot write files in blocks; use a server that announces/],
  ])('%s to it says what the server lacks', async (command, message) => {
    mkdirSync(at('folder'), { recursive: true });
    writeFileSync(at('folder/file'), '');
    const source = command === 'cp' ? 'folder/file' : 'folder';
    const { code, stderr } = await user.run([command, at(source), `${other.url}:${at('elsewhere')}`]);
    expect([code, stderr, existsSync(at('elsewhere'))]).toEqual([125, expect.stringMatching(message), false]);
  });
});

test('without the exit code or the reference of a program in an answer, wait and run -d fail', async () => {
  const methods = new Map<unknown, unknown>();
  const other = await MessageProxy.open(server.url, ({ direction, text }) => {
    const message = JSON.parse(text);
    if (direction === 'toServer') methods.set(message.id, message.method);
    else if (message.result && ['process/start', 'process/wait'].includes(String(methods.get(message.id))))
      return { text: JSON.stringify({ ...message, result: {} }) };
    return 'pass';
  });
  onTestFinished(() => other.close());
  const started = await user.run(['run', '-E', other.url, '-d', '--name', 'unanswered', 'true']);
  expect([started.code, started.stdout]).toEqual([125, '']);
  expect(started.stderr).toContain('did not report the reference of the program');
  const { code, stderr } = await user.run(['wait', '-E', other.url, 'unanswered']);
  expect([code, stderr]).toEqual([
    125,
    expect.stringContaining('did not report the exit code of unanswered'),
  ]);
});

describe('no such host', () => {
  test('over a websocket', async () => {
    const { code, stderr } = await user.run(['run', '-E', 'ws://no-such-host.invalid:4000', 'true']);
    expect([code, stderr]).toEqual([
      125,
      expect.stringMatching(
        /^exec-server: cannot reach ws:\/\/no-such-host\.invalid:4000: .*(?:ENOTFOUND|no such host|name server).*; check the host name and the network\n$/,
      ),
    ]);
  });

  test.skipIf(sshMissing() !== null)('over ssh', async () => {
    const { code, stderr } = await user.run(['run', '-E', 'ssh://no-such-host.invalid', 'true']);
    expect([code, stderr]).toEqual([
      125,
      expect.stringMatching(
        /^exec-server: ssh has failed \(exit code 255\): .*resolve hostname no-such-host\.invalid.*; try 'ssh no-such-host\.invalid exec-server version'\n$/,
      ),
    ]);
  });
});

test.skipIf(sshMissing() !== null)(
  'a machine whose exec-server has no proxy is reported with what to do',
  async () => {
    const machine = await SshMachine.start(user);
    onTestFinished(() => machine.close());
    const program = join(machine.user.workspace.path, 'bin', 'exec-server');
    rmSync(program);
    writeFileSync(program, '#!/bin/sh\necho "exec-server: unknown command \'$1\'" >&2\nexit 2\n');
    chmodSync(program, 0o755);
    const { code, stderr } = await user.run(['run', '-E', machine.url, 'true'], machine.env);
    expect([code, stderr]).toEqual([
      125,
      expect.stringMatching(
        /^exec-server: ssh has connected, but the exec-server there is too old: it has no command proxy; update it there\n$/,
      ),
    ]);
  },
);

test.each<[string, string, number, string, RegExp]>([
  ['run', 'run -- cat', 0, '', /^$/],
  ['run of a program that ignores it', 'run -- sh -c "echo out; exit 3"', 3, 'out\n', /^$/],
  ['run -t', 'run -t -- true', 2, '', /-t needs a terminal/],
  ['shell', 'shell', 2, '', /a shell needs a terminal/],
  ['ps', 'ps --json', 0, '[]\n', /^$/],
])('%s works with a closed stdin', (_name, command, code, stdout, stderr) => {
  const ran = spawnSync('sh', ['-c', `exec "$0" "$1" ${command} <&-`, process.execPath, CLI], {
    cwd: user.workspace.path,
    env: { PATH: process.env.PATH, HOME: user.workspace.path, ...user.env },
    encoding: 'utf8',
  });
  expect([ran.status, ran.stdout, ran.stderr]).toEqual([code, stdout, expect.stringMatching(stderr)]);
});

test('run -w with a file, or a directory that is missing, says what to choose', async () => {
  const file = user.workspace.file('plain', '');
  for (const environment of [[], ['-E', server.url]]) {
    const { code, stdout, stderr } = await user.run(['run', ...environment, '-w', file, 'true']);
    expect([code, stdout, stderr]).toEqual([
      125,
      '',
      expect.stringMatching(/^exec-server: .*plain.* not a directory.*; choose another one with -w\n$/),
    ]);
    const missing = await user.run(['run', ...environment, '-w', at('missing'), 'true']);
    expect([missing.code, missing.stderr]).toEqual([
      125,
      expect.stringMatching(/missing.*; create the directory, or choose another one with -w\n$/),
    ]);
  }
});

test.each(['cp', 'sync'])(
  'SIGTERM ends %s with 143, and nothing half-written has the name of a file',
  async (command) => {
    const stalled = await MessageProxy.open(server.url, ({ text }) =>
      text.slice(0, 200).includes('"fs/writeBlock"') ? 'drop' : 'pass',
    );
    onTestFinished(() => stalled.close());
    const source = at(`${command}-source`);
    mkdirSync(source);
    writeFileSync(join(source, 'large'), '');
    truncateSync(join(source, 'large'), 8 * 1024 * 1024);
    const there = at(`${command}-there`);
    const flags = command === 'cp' ? ['-r'] : [];
    const run = user.start([command, ...flags, source, `${stalled.url}:${there}`]);
    await waitFor('a block', () => stalled.log.some(({ text }) => text.includes('"fs/writeBlock"')));
    run.child.kill('SIGTERM');
    const { code, stderr } = await run.outcome;
    expect([code, stderr]).toEqual([
      143,
      expect.stringMatching(/^exec-server: interrupted; .* to continue.*\n$/),
    ]);
    expect(readdirSync(there)).not.toContain('large');
  },
);
