import { readFileSync } from 'node:fs';
import { afterAll, afterEach, describe, expect, onTestFinished, test } from 'vitest';
import { Certificates } from '../support/certificates.ts';
import { CommandTerminals, commandPid } from '../support/command-terminals.ts';
import { onFreePort } from '../support/free-port.ts';
import { isAlive } from '../support/private-server.ts';
import { HAS_TMUX } from '../support/tmux.ts';
import { firstLine } from '../unit/cli/run-cli.ts';

const terminals = new CommandTerminals();
const certificates = new Certificates();
const { user } = terminals;

afterEach(() => terminals.closeTerminals());
afterAll(async () => {
  await terminals.close();
  certificates.remove();
});

let runs = 0;

describe.skipIf(!HAS_TMUX)('serve on a terminal says on stderr what to do next', () => {
  const authority = certificates.authority('authority');
  const { cert, key } = certificates.signedBy(authority, 'server');
  user.workspace.file('token', 'a-token-for-the-tests');

  test.each([
    [
      'without a token',
      '',
      /There is no password: whoever reaches the port can run programs\. To add one:\n {2}exec-server token --out token\n/,
    ],
    [
      'with a token',
      '--ws-auth capability-token --ws-token-file token',
      /Clients need a token or a certificate\./,
    ],
    [
      'on a unix socket',
      `--listen unix://${terminals.at('socket')}`,
      /There is no password: only this user can open the socket\./,
    ],
    [
      'with TLS',
      `-p 0 --tls-cert ${cert} --tls-key ${key}`,
      /There is no password: whoever reaches the port/,
    ],
  ])('%s, and the command that it shows works', async (_what, flags, note) => {
    const [stdout, stderr] = [terminals.open(), terminals.open({ SSL_CERT_FILE: authority.cert })];
    stderr.line(`tty > tty-${++runs}`);
    const tty = await terminals.content(`tty-${runs}`);
    stdout.line(`clear; exec-server serve ${flags} 2> ${tty}`);
    const pid = await commandPid(stdout);
    // A server that has another terminal does not end with this one.
    onTestFinished(() => {
      if (isAlive(pid)) process.kill(pid, 'SIGKILL');
    });
    const url = await stdout.shows(/^(?:ws|wss|unix):\S+$/);
    const screen = await stderr.shows(note);
    const [, command] =
      /^Ready\. Stop it with Ctrl-C\. In another terminal:\n {2}(exec-server run .*)\n/m.exec(screen)!;
    expect(command).toContain(`-E ${url} `);
    stderr.line(`clear; ${command}`);
    await stderr.shows(/^Linux$/m);
    stdout.keys('C-c');
    await stdout.shows(/%$/);
    expect(stdout.screen.replace('^C', '')).toBe(`${url}\n%`);
  });
});

test.each([
  ['--port N', (port: number) => ['--port', String(port)], 'ws://127.0.0.1'],
  ['-p N', (port: number) => ['-p', String(port)], 'ws://127.0.0.1'],
  ['--listen N', (port: number) => ['--listen', String(port)], 'ws://127.0.0.1'],
  ['--listen ws://localhost:N', (port: number) => ['--listen', `ws://localhost:${port}`], 'ws://127.0.0.1'],
])('serve %s listens there', async (_form, flags, origin) => {
  const { run, url, port } = await onFreePort(async (free) => {
    const started = user.start(['serve', ...flags(free)]);
    const printed = await Promise.race([firstLine(started), started.outcome.then(({ stderr }) => stderr)]);
    if (!printed.startsWith('ws:')) throw new Error(printed);
    return { run: started, url: printed, port: free };
  });
  expect(url).toBe(`${origin}:${port}`);
  expect((await fetch(`http://127.0.0.1:${port}/readyz`)).status).toBe(200);
  run.child.kill('SIGTERM');
  expect(await run.outcome).toMatchObject({ code: 0, stderr: '' });
});

test('a misspelt variable ends serve with 2, and an unknown one does not', async () => {
  const { code, stdout, stderr } = await user.run(['serve', '-p', '0'], { EXEC_SERVER_LOG_LEVL: 'error' });
  expect([code, stdout]).toEqual([2, '']);
  expect(stderr).toMatch(/^exec-server: .*EXEC_SERVER_LOG_LEVL.*did you mean 'EXEC_SERVER_LOG_LEVEL'\?\n$/);
  const run = user.start(['serve', '-p', '0'], {
    ...{ EXEC_SERVER_SERVICE_HOST: '10.0.0.1', EXEC_SERVER_PORT_4000_TCP: 'tcp://10.0.0.1:4000' },
    ...{ EXEC_SERVER_OF_SOMETHING_ELSE: '1' },
  });
  expect(await firstLine(run)).toMatch(/^ws:/);
  run.child.kill('SIGTERM');
  expect(await run.outcome).toMatchObject({
    code: 0,
    stderr: expect.stringMatching(/^[^\n]*EXEC_SERVER_OF_SOMETHING_ELSE[^\n]*\n$/),
  });
});

test('serve --help has the settings in groups, and --help is one screen', async () => {
  const help = await user.run(['serve', '--help']);
  expect(help).toMatchObject({ code: 0, stderr: '' });
  const groups = [...help.stdout.matchAll(/^([A-Z][^\n]*):\n((?: .*\n|\n)+)/gm)];
  const flagsOf = (title: string) => groups.find(([, found]) => found === title)?.[2];
  expect(flagsOf('Access')).toContain('--ws-token-file');
  expect(flagsOf('Connections')).toContain('--max-connections');
  expect(flagsOf('Logs, audit and metrics')).toContain('--audit-log');
  expect(flagsOf('Recordings')).toContain('--record-dir');
  expect(flagsOf('Options')).not.toContain('--ws-token-file');
  const short = await user.run(['--help']);
  expect(short.code).toBe(0);
  expect(short.stdout.split('\n').length).toBeLessThanOrEqual(25);
});

test('SIGHUP ends neither the private server nor mcp --http', async () => {
  expect(await user.run(['run', '-d', '--name', 'job', 'sleep', '1000'])).toMatchObject({ code: 0 });
  const pid = user.serverPid!;
  const mcp = user.start(['mcp', '--http', '127.0.0.1:0', '--sandbox', 'off']);
  const url = await firstLine(mcp);
  process.kill(pid, 'SIGHUP');
  mcp.child.kill('SIGHUP');
  // Each of them has handled the signal when it answers what was sent later.
  expect((await user.run(['ps'])).stdout).toMatch(/ job +running /);
  expect(user.serverPid).toBe(pid);
  const { status } = await fetch(url, { method: 'POST', body: '{}' });
  expect(status).toBe(415);
  mcp.child.kill('SIGTERM');
  expect(await mcp.outcome).toMatchObject({ code: 0, signal: null });
  expect(readFileSync(`/proc/${pid}/comm`, 'utf8')).not.toBe('');
});
