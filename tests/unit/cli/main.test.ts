import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, test } from 'vitest';
import { programHelp } from '../../../src/cli/help.ts';
import { VERSION } from '../../../src/observability/version.ts';
import { CLI, firstLine, Workspace } from './run-cli.ts';

const PROJECT = fileURLToPath(new URL('../../../', import.meta.url));
const HINT = "Try 'exec-server serve --help'.\n";

const workspace = new Workspace();
afterAll(() => workspace.close());

test.each([
  [['--help'], programHelp()],
  [['version'], `exec-server ${VERSION}\n`],
])('%j prints and exits 0', async (args, stdout) => {
  expect(await workspace.run(args)).toEqual({ code: 0, signal: null, stdout, stderr: '' });
});

test.each([
  [['help'], programHelp()],
  [['--version'], `exec-server ${VERSION}\n`],
  [['-V'], `exec-server ${VERSION}\n`],
])('%j prints', async (args, stdout) => {
  expect(await workspace.runHere(args)).toEqual({ code: 0, signal: null, stdout, stderr: '' });
});

test('the documentation and the man page match the table of commands', () => {
  const check = spawnSync(process.execPath, ['scripts/generate-cli.mjs', '--check'], {
    cwd: PROJECT,
    encoding: 'utf8',
  });
  expect(check).toMatchObject({ status: 0, stderr: '' });
});

test('accepts the settings file of the documentation', async () => {
  const [, toml] = /```toml\n(.*?)```/s.exec(readFileSync(join(PROJECT, 'docs/cli.md'), 'utf8')) ?? [];
  const file = workspace.file('documented.toml', toml!);
  const { code, stdout } = await workspace.runHere(['config', '--json', '--config', file]);
  expect(code).toBe(0);
  expect(JSON.parse(stdout).settings.retainedOutputBytesPerProcess).toEqual({
    value: 4 * 1024 * 1024,
    source: 'file',
    detail: file,
    variable: 'EXEC_SERVER_RETAINED_OUTPUT_BYTES_PER_PROCESS',
  });
});

test('config shows the value that is used where a smaller one is raised', async () => {
  const { code, stdout } = await workspace.runHere(['config', '--max-unfinished-bytes', '2KiB']);
  expect(code).toBe(0);
  expect(stdout).toMatch(
    /^maxUnfinishedBytes +64MiB +flag --max-unfinished-bytes, raised to maxMessageBytes +EXEC_/m,
  );
});

test.each([
  ['--http-header-variables', 'WEB_TOKEN OTHER'],
  ['--http-header-variables', 'OPENAI_API_KEY'],
  ['--http-allowed-hosts', 'a b'],
])('config reports an invalid value of %s', async (flag, value) => {
  const { code, stdout, stderr } = await workspace.runHere(['config', flag, value]);
  expect([code, stdout]).toEqual([1, expect.stringMatching(/^listen /m)]);
  expect(stderr).toMatch(new RegExp(`^exec-server: ${flag}: .+\\n`));
});

test.each<[string[], string, number?]>([
  [['--remote', 'https://relay.example'], '--remote needs --environment-id', 2],
  [['--remote', 'x', '--environment-id', 'e'], '--remote: ', 2],
  [['--listen', 'stdio', '--url-file', 'u'], "--url-file needs a websocket listener; 'stdio' has no URL", 2],
  [['--url-file', 'u', '--pid-file', 'u'], '--url-file and --pid-file name the same file', 2],
  [['--bwrap-path', 'bwrap'], '--bwrap-path bwrap: expected an absolute path'],
  [['--metrics-listen', 'nonsense'], "--metrics-listen: 'nonsense' is not an address"],
  [['--ws-auth', 'capability-token', '--ws-token-sha256', 'abc'], '--ws-token-sha256 must be a 64-character'],
  [['--listen', 'ws://0.0.0.0:0'], 'ws://0.0.0.0:0 can be reached from other machines'],
  [['--listen', 'wss://127.0.0.1:0'], '`wss://127.0.0.1:0` needs `--tls-cert FILE`'],
  [['--min-sandbox', '/nothing'], '--min-sandbox /nothing: '],
])('config %j shows the settings and why serve would not start', async (flags, problem, expected = 1) => {
  const { code, stdout, stderr } = await workspace.runHere(['config', ...flags]);
  expect([code, stdout, stderr]).toEqual([
    expected,
    expect.stringMatching(/^listen /m),
    expect.stringContaining(`exec-server: ${problem}`),
  ]);
});

test('config shows every setting when some are wrong, and names what is wrong', async () => {
  const env = {
    EXEC_SERVER_NATIVE_SPAWN: 'perhaps',
    EXEC_SERVER_LISTN: 'stdio',
    EXEC_SERVER_LISTEN: 'http://x',
  };
  const { code, stdout, stderr } = await workspace.runHere(['config', '--max-sessions', '0'], env);
  expect(code).toBe(2);
  expect(stdout).toMatch(
    /^nativeSpawn +invalid +environment EXEC_SERVER_NATIVE_SPAWN +EXEC_SERVER_NATIVE_SPAWN$/m,
  );
  expect(stdout).toMatch(/^maxSessions +invalid +flag --max-sessions +EXEC_SERVER_MAX_SESSIONS$/m);
  expect(stdout).toMatch(/^logLevel +warn +default +EXEC_SERVER_LOG_LEVEL$/m);
  expect(stderr.trimEnd().split('\n')).toEqual([
    expect.stringContaining("did you mean 'EXEC_SERVER_LISTEN'?"),
    expect.stringContaining("maxSessions (flag --max-sessions): '0' is below 1"),
    expect.stringContaining(
      "nativeSpawn (environment EXEC_SERVER_NATIVE_SPAWN): 'perhaps' is not true or false",
    ),
    expect.stringContaining('unsupported --listen URL `http://x`'),
  ]);
  const { settings, problems } = JSON.parse((await workspace.runHere(['config', '--json'], env)).stdout);
  expect(problems).toHaveLength(3);
  expect(settings.nativeSpawn).toEqual({
    value: true,
    source: 'environment',
    detail: 'EXEC_SERVER_NATIVE_SPAWN',
    variable: 'EXEC_SERVER_NATIVE_SPAWN',
    problem: expect.stringContaining("'perhaps' is not true or false"),
  });
});

test('reports unknown variables once, ignores those of Kubernetes, and serves', async () => {
  const server = workspace.start(['-p', '0'], {
    EXEC_SERVER_COLOUR: '1',
    EXEC_SERVER_SERVICE_HOST: '10.0.0.1',
    EXEC_SERVER_PORT: 'tcp://10.0.0.1:4000',
    EXEC_SERVER_PORT_4000_TCP_PROTO: 'tcp',
  });
  expect(await firstLine(server)).toMatch(/^ws:\/\/127\.0\.0\.1:\d+$/);
  server.child.kill('SIGTERM');
  expect(await server.outcome).toMatchObject({
    code: 0,
    stderr:
      "exec-server: warning: unknown variable 'EXEC_SERVER_COLOUR' in the environment; it has no effect, 'exec-server config' lists the valid ones\n",
  });
});

test('SIGHUP during the start does not end a server', async () => {
  const pipe = join(workspace.path, 'settings.toml');
  expect(spawnSync('mkfifo', [pipe]).status).toBe(0);
  const server = workspace.start(['--config', pipe]);
  // The server opens the pipe while it starts, and reads until the writer closes it.
  const writer = await open(pipe, 'w');
  server.child.kill('SIGHUP');
  await writer.write('logLevel = "error"');
  await writer.close();
  expect(await firstLine(server)).toMatch(/^ws:/);
  server.child.kill('SIGTERM');
  expect(await server.outcome).toMatchObject({ code: 0, signal: null });
});

test.skipIf(spawnSync('script', ['--version']).error !== undefined)(
  'says on a terminal what to do next',
  async () => {
    const command = `${process.execPath} ${CLI} --pid-file on-terminal.pid`;
    const child = spawn('script', ['-qec', command, '/dev/null'], { cwd: workspace.path, stdio: 'pipe' });
    let shown = '';
    child.stdout.setEncoding('utf8').on('data', (text) => {
      shown += text;
    });
    await expect.poll(() => shown).toContain('--ws-token-file token');
    expect(shown).toMatch(/^ws:\/\/127\.0\.0\.1:\d+\r\n\r\nReady\. /);
    expect(shown).toContain('There is no password');
    expect(shown).toMatch(/exec-server run -E ws:\/\/127\.0\.0\.1:\d+ -- uname/);
    const exited = once(child, 'exit');
    process.kill(Number(readFileSync(join(workspace.path, 'on-terminal.pid'), 'utf8')), 'SIGTERM');
    await exited;
  },
);

test('config shows the source of each value', async () => {
  const file = workspace.file('some.toml', 'logLevel = "error"\nmaxConnections = 5\nmaxJsonDepth = 9');
  const env = { EXEC_SERVER_CONFIG: file, EXEC_SERVER_LOG_LEVEL: 'info', EXEC_SERVER_MAX_CONNECTIONS: '6' };
  const { code, stdout, stderr } = await workspace.runHere(['config', '--max-connections', '7'], env);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  const row = (key: string) =>
    stdout
      .split('\n')
      .find((line) => line.startsWith(`${key} `))
      ?.split(/ {2,}/);
  expect(row('maxConnections')?.slice(0, 3)).toEqual(['maxConnections', '7', 'flag --max-connections']);
  expect(row('logLevel')?.slice(0, 3)).toEqual(['logLevel', 'info', 'environment EXEC_SERVER_LOG_LEVEL']);
  expect(row('maxJsonDepth')?.slice(0, 3)).toEqual(['maxJsonDepth', '9', `file ${file}`]);
  expect(row('maxMessageBytes')).toEqual([
    'maxMessageBytes',
    '64MiB',
    'default',
    'EXEC_SERVER_MAX_MESSAGE_BYTES',
  ]);
});

test.each<[string[], Record<string, string>, string]>([
  [
    ['--concurrent-requests', '0'],
    {},
    "concurrentRequests (flag --concurrent-requests): '0' is below 1; allowed: a whole number from 1 to 2147483647",
  ],
  [
    ['--concurrent-requests', 'x'],
    {},
    "concurrentRequests (flag --concurrent-requests): 'x' is not a whole number; " +
      'allowed: a whole number from 1 to 2147483647',
  ],
  [
    [],
    { EXEC_SERVER_NATIVE_SPAWN: 'perhaps' },
    "nativeSpawn (environment EXEC_SERVER_NATIVE_SPAWN): 'perhaps' is not true or false; allowed: true or false",
  ],
  [
    ['--config', 'bad.toml'],
    {},
    "logLevel (file bad.toml): 'loud' is not one of the choices; allowed: debug, info, warn, error",
  ],
  [
    ['--listen', 'stdio', '--transport', 'ws'],
    {},
    '--transport ws contradicts --listen stdio; give only one of them',
  ],
])('%j with %j exits 2', async (args, env, message) => {
  workspace.file('bad.toml', 'logLevel = "loud"');
  const stderr = `exec-server: ${message}\n${HINT}`;
  expect(await workspace.run(args, env)).toEqual({ code: 2, signal: null, stdout: '', stderr });
});

test.each<[string[], string]>([
  [['--nope'], "exec-server: unknown flag '--nope'; did you mean '--name'?\n"],
  [['explode'], "exec-server: unknown command 'explode'; 'exec-server --help' lists the commands\n"],
  [['tokne'], "exec-server: unknown command 'tokne'; did you mean 'token'?\n"],
  [['relay', '-z'], "exec-server relay: unknown flag '-z'; 'exec-server relay --help' lists them\n"],
])('%j prints one line with a suggestion and exits 2', async (args, stderr) => {
  expect(await workspace.runHere(args)).toEqual({ code: 2, signal: null, stdout: '', stderr });
});

test.each<[string[], string]>([
  [
    ['--listen', 'http://127.0.0.1:0'],
    'unsupported --listen URL `http://127.0.0.1:0`; expected `ws://IP:PORT`, `wss://IP:PORT`, `unix:///PATH` or `stdio`',
  ],
  [
    ['--listen', ''],
    'unsupported --listen URL ``; expected `ws://IP:PORT`, `wss://IP:PORT`, `unix:///PATH` or `stdio`',
  ],
  [
    ['--listen', 'ws://example.com:0'],
    'invalid websocket --listen URL `ws://example.com:0`; expected `ws://IP:PORT`',
  ],
  [
    ['--listen', 'ws://127.0.0.1:0/'],
    'invalid websocket --listen URL `ws://127.0.0.1:0/`; expected `ws://IP:PORT`',
  ],
  [
    ['--listen', 'ws://192.0.2.1:0', '--insecure-no-auth'],
    'cannot listen on ws://192.0.2.1:0: this machine has no such address (use 127.0.0.1, or 0.0.0.0 for every interface)',
  ],
  [
    ['--config', '/nonexistent.toml'],
    'cannot read the config file /nonexistent.toml: it does not exist (create it, or name another with --config)',
  ],
])('%j exits 1 and prints one line', async (args, message) => {
  expect(await workspace.run(args)).toEqual({
    code: 1,
    signal: null,
    stdout: '',
    stderr: `exec-server: ${message}\n`,
  });
});

test('exits 1 with a fix when the port is in use', async () => {
  const occupant = createServer().listen(0, '127.0.0.1');
  await once(occupant, 'listening');
  const { port } = occupant.address() as { port: number };
  const { code, stdout, stderr } = await workspace.run(['--listen', `ws://127.0.0.1:${port}`]);
  occupant.close();
  expect({ code, stdout, stderr }).toEqual({
    code: 1,
    stdout: '',
    stderr: `exec-server: cannot listen on ws://127.0.0.1:${port}: the port is in use (choose another, or 0 for a free one)\n`,
  });
});

test.each(['SIGTERM', 'SIGINT'] as const)(
  'prints its URL, writes its files and exits 0 on %s',
  async (signal) => {
    const [urlFile, pidFile] = [join(workspace.path, 'the.url'), join(workspace.path, 'the.pid')];
    const server = workspace.start(['--url-file', 'the.url', '--pid-file', 'the.pid']);
    const url = await firstLine(server);
    expect(url).toMatch(/^ws:\/\/127\.0\.0\.1:\d+$/);
    expect(readFileSync(urlFile, 'utf8')).toBe(`${url}\n`);
    expect(readFileSync(pidFile, 'utf8')).toBe(`${server.child.pid}\n`);
    expect((await fetch(`${url.replace('ws:', 'http:')}/readyz`)).status).toBe(200);

    // SIGHUP arrives first and does not end the server.
    server.child.kill('SIGHUP');
    expect((await fetch(`${url.replace('ws:', 'http:')}/readyz`)).status).toBe(200);
    server.child.kill(signal);
    const { code, stderr, signal: killedBy } = await server.outcome;
    expect({ code, killedBy, stderr }).toEqual({ code: 0, killedBy: null, stderr: '' });
    expect([existsSync(urlFile), existsSync(pidFile)]).toEqual([false, false]);
  },
);

test('reports flags without an effect, and serves', async () => {
  const flags = ['-c', 'model="o3"', '--enable', 'hooks', '-c', 'logLevel=error'];
  const variable = 'CODEX_EXEC_SERVER_PROXY_PRIVATE_IPS_VIA_UPSTREAM';
  const server = workspace.start(flags, { [variable]: 'true' });
  await firstLine(server);
  server.child.kill('SIGTERM');
  const { code, stderr } = await server.outcome;
  expect(code).toBe(0);
  expect(stderr.trimEnd().split('\n')).toEqual([
    'exec-server: warning: -c model has no effect: it is not a setting of this program',
    "exec-server: warning: the feature 'hooks' has no effect: features belong to codex, not to this program",
    expect.stringMatching(`^exec-server: warning: ${variable} has no effect: the proxy of a program`),
  ]);
});

test('an invalid value of -c is named with -c, and ends with exit code 2', async () => {
  const { code, stderr } = await workspace.run(['-c', 'maxProcesses=abc']);
  expect([code, stderr]).toEqual([
    2,
    expect.stringContaining("maxProcesses (flag -c maxProcesses): 'abc' is not a whole number"),
  ]);
});

test('config shows what -c sets, and reports what has no effect', async () => {
  const { code, stdout, stderr } = await workspace.runHere([
    'config',
    '-c',
    'logLevel=error',
    '-c',
    'model=o3',
  ]);
  expect([code, stdout]).toEqual([0, expect.stringMatching(/^logLevel +error +flag -c logLevel +EXEC_/m)]);
  expect(stderr).toContain('-c model has no effect');
});

test('help prints the help of a command', async () => {
  const [connect, forward, asked, unknown] = await Promise.all(
    [
      ['help', 'connect'],
      ['forward', '-h'],
      ['connect', '--connect', 'x', '--help'],
      ['help', 'nothing'],
    ].map((args) => workspace.runHere(args)),
  );
  expect(connect!.stdout).toMatch(/^Usage: exec-server connect --connect URL /);
  expect([forward!.stdout, asked!.stdout]).toEqual([connect!.stdout, connect!.stdout]);
  expect([unknown!.code, unknown!.stderr]).toEqual([
    2,
    "exec-server: unknown command 'nothing'; 'exec-server --help' lists the commands\n",
  ]);
});

test('a forwarder accepts the flags of codex, and refuses the direct transport', async () => {
  const forward = ['forward', '--connect', 'ws://127.0.0.1:9', '--remote', 'http://127.0.0.1:9'];
  const base = [...forward, '--environment-id', 'e'];
  const direct = await workspace.run([...base, '--remote-transport', 'direct', '--aws-sigv4']);
  expect([direct.code, direct.stderr]).toEqual([
    1,
    expect.stringContaining('the direct transport cannot forward'),
  ]);
  const rest = await Promise.all(
    [
      ['--remote-transport', 'direct'],
      ['--aws-sigv4'],
      ['--aws-region', 'x'],
      ['--aws-profile', 'x'],
      ['--aws-service', 'x'],
    ].map((flags) => workspace.runHere([...base, ...flags])),
  );
  expect(rest.map(({ code, stderr }) => [code, stderr.split('\n')[0]])).toEqual([
    [2, 'exec-server connect: the direct transport cannot forward; use --remote-transport noise'],
    [1, 'exec-server: --aws-sigv4 is only for the direct transport, which cannot forward; leave it out'],
    ...['--aws-region', '--aws-profile', '--aws-service'].map((flag) => [
      2,
      `exec-server connect: ${flag} is only for the direct transport, which cannot forward; leave it out`,
    ]),
  ]);
  // Without a credential it ends after the flags were read.
  const flags = [
    '-c',
    'logLevel=info',
    '--linux-sandbox-pid-namespace',
    'inherit',
    '--remote-transport',
    'noise',
  ];
  const accepted = await workspace.run([...base, ...flags]);
  expect([accepted.code, accepted.stderr]).toEqual([
    1,
    expect.stringMatching(/warning: -c logLevel has no effect/),
  ]);
  expect(accepted.stderr).toContain('registration requires');
});

test.each([
  [['token', '--out', 'unwritten'], 'cannot write --out unwritten: '],
  [['--pid-file', 'unwritten'], 'cannot write --pid-file unwritten: '],
])('%j leaves no partial file when the disk is full', (args, message) => {
  const folder = join(workspace.path, 'full');
  mkdirSync(folder);
  // No file may grow beyond zero bytes.
  const limited = ['-c', 'ulimit -f 0; exec "$@"', 'sh', process.execPath, CLI, ...args];
  const { status, stderr } = spawnSync('sh', limited, { cwd: folder, encoding: 'utf8', timeout: 20_000 });
  expect([status, stderr]).toEqual([1, expect.stringContaining(message)]);
  expect(readdirSync(folder)).toEqual([]);
  rmdirSync(folder);
});

test('reports a working directory that was removed', () => {
  const folder = join(workspace.path, 'gone');
  mkdirSync(folder);
  const removed = ['-c', 'rmdir "$PWD"; exec "$@"', 'sh', process.execPath, CLI, '--url-file', 'url'];
  const { status, stderr } = spawnSync('sh', removed, { cwd: folder, encoding: 'utf8', timeout: 20_000 });
  expect([status, stderr]).toEqual([
    1,
    'exec-server: cannot write --url-file url: its directory does not exist (create it, or choose another path)\n',
  ]);
});

test('keeps serving when the reader of the URL goes away', async () => {
  const server = workspace.start(['--url-file', 'reader.url']);
  server.child.stdout.destroy();
  const file = join(workspace.path, 'reader.url');
  await expect.poll(() => existsSync(file)).toBe(true);
  const url = readFileSync(file, 'utf8').trim();
  expect((await fetch(`${url.replace('ws:', 'http:')}/readyz`)).status).toBe(200);
  const exited = once(server.child, 'exit');
  server.child.kill('SIGTERM');
  expect(await exited).toEqual([0, null]);
});

test('a relay keeps serving when the reader of its log goes away', async () => {
  const relay = workspace.start(['relay', '--secret-file', workspace.file('secret', 's'.repeat(32))]);
  await firstLine(relay);
  relay.child.stderr.destroy();
  const exited = once(relay.child, 'exit');
  // Both signals are logged.
  relay.child.kill('SIGHUP');
  relay.child.kill('SIGTERM');
  expect(await exited).toEqual([0, null]);
});

test('a forwarder keeps running when the reader of its log goes away', async () => {
  let calls = 0;
  const registry = createHttpServer((_request, response) => {
    calls++;
    response.writeHead(503).end();
  }).listen(0, '127.0.0.1');
  await once(registry, 'listening');
  const { port } = registry.address() as AddressInfo;
  const flags = ['--connect', 'ws://127.0.0.1:1', '--remote', `http://127.0.0.1:${port}`];
  const { child } = workspace.start(['forward', ...flags, '--environment-id', 'e'], {
    EXEC_SERVER_API_KEY: 'key',
  });
  const exited = once(child, 'exit');
  child.stderr.destroy();
  // The failure of the first call is logged before the third call.
  await expect.poll(() => calls).toBeGreaterThanOrEqual(3);
  child.kill('SIGTERM');
  expect(await exited).toEqual([0, null]);
  registry.close();
});

test('stdio answers on stdout and exits when stdin ends', async () => {
  const server = workspace.start(['--transport', 'stdio']);
  server.child.stdin.write('{"id":1,"method":"initialize","params":{"clientName":"test"}}\n');
  expect(JSON.parse(await firstLine(server))).toMatchObject({ id: 1, result: {} });
  server.child.stdin.end();
  expect(await server.outcome).toMatchObject({ code: 0, signal: null, stderr: '' });
});

test('stdio exits when its reader goes away', async () => {
  const server = workspace.start(['--listen', 'stdio']);
  server.child.stdin.on('error', () => {});
  server.child.stdout.destroy();
  server.child.stdin.write('{"id":1,"method":"initialize","params":{"clientName":"test"}}\n');
  expect(await once(server.child, 'exit')).toEqual([0, null]);
});

test('off opens no listener and waits for a signal', async () => {
  const server = workspace.start(['--transport', 'off', '--pid-file', 'off.pid']);
  await expect.poll(() => existsSync(join(workspace.path, 'off.pid'))).toBe(true);
  server.child.kill('SIGTERM');
  expect(await server.outcome).toEqual({ code: 0, signal: null, stdout: '', stderr: '' });
});
