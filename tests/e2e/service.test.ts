import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { connect } from 'node:net';
import { dirname, join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { docBlocks } from '../../scripts/doc-blocks.mjs';
import { startServerProcess } from '../../src/testing/index.ts';
import { onFreePort } from '../support/free-port.ts';
import { shell } from '../support/programs.ts';
import { waitFor } from '../support/wait-for.ts';
import { CLI, Workspace } from '../unit/cli/run-cli.ts';

const workspace = new Workspace();
afterAll(() => workspace.close());

const has = (program: string) => spawnSync(program, ['--version']).status === 0;

describe.skipIf(!has('systemd-analyze'))('systemd accepts the units', () => {
  /** Writes the units that `--dry-run` prints to a folder. Returns the path of the service. */
  async function writeUnits(name: string, ...flags: string[]): Promise<string> {
    const { stdout, stderr, code } = await workspace.run(['service', 'install', '--dry-run', ...flags]);
    expect([code, stderr]).toEqual([0, '']);
    const folder = join(workspace.path, `units-${name}-${flags.length}`);
    mkdirSync(folder, { recursive: true });
    for (const [, path, text] of stdout.matchAll(/^## (\S+)\n\n([\s\S]*?)(?=\n## |$(?![\s\S]))/gm)) {
      writeFileSync(join(folder, path!.split('/').at(-1)!), text!);
    }
    return join(folder, `${name}.service`);
  }

  test.each([
    ['exec-server', []],
    ['exec-server', ['--run-as', 'daemon']],
    ['exec-server', ['--listen', 'unix:///run/exec-server.sock']],
    ['exec-server', ['--user']],
    ['exec-server-relay', ['--relay']],
    ['exec-server-relay', ['--relay', '--user']],
  ])('%s %j', async (name, flags) => {
    const unit = await writeUnits(name, ...flags);
    const manager = flags.includes('--user') ? ['--user'] : [];
    expect(verify([unit, unit.replace(/service$/, 'socket')], manager)).toEqual({ status: 0, problems: [] });
  });

  test('the unit in the guide of the relay', () => {
    const units = docBlocks('docs/guides/relay.md').filter(({ language }) => language === 'ini');
    expect(units).toHaveLength(1);
    const folder = join(workspace.path, 'documented-unit');
    mkdirSync(folder);
    const unit = join(folder, 'exec-server-relay.service');
    const { text } = units[0]!;
    // systemd checks that the program exists.
    const installed = text.replace('=/usr/local/bin/exec-server ', `=${process.execPath} ${CLI} `);
    expect(installed).not.toBe(text);
    writeFileSync(unit, installed);
    expect(verify([unit])).toEqual({ status: 0, problems: [] });
    writeFileSync(unit, `${installed}Wanted=multi-user.target\n`);
    expect(verify([unit]).problems).toEqual([expect.stringContaining('Wanted')]);
  });

  test('the credentials of the guide', async () => {
    const [dropIn, ...others] = docBlocks('docs/guides/service.md').filter(
      ({ language }) => language === 'ini',
    );
    expect(others).toEqual([]);
    const unit = await writeUnits('exec-server', '--listen', 'wss://0.0.0.0:4443');
    const folder = `${unit}.d`;
    mkdirSync(folder);
    writeFileSync(join(folder, 'tls.conf'), dropIn!.text);
    expect(verify([unit])).toEqual({ status: 0, problems: [] });
    writeFileSync(join(folder, 'tls.conf'), dropIn!.text.replace('LoadCredential=', 'LoadCredentials='));
    expect(verify([unit]).problems).toEqual([expect.stringContaining('LoadCredentials')]);
  });

  function verify(units: readonly string[], manager: readonly string[] = []) {
    const { status, stderr } = spawnSync('systemd-analyze', [...manager, '--man=no', 'verify', ...units], {
      encoding: 'utf8',
      env: { ...process.env, XDG_RUNTIME_DIR: workspace.path },
    });
    // Units of the machine may have problems of their own.
    return { status, problems: stderr.split('\n').filter((line) => line.includes('exec-server')) };
  }

  // Exposure is 0 for a service that can do nothing, and 96 for one without any restriction. docs/guides/service.md states these numbers.
  test.each([
    ['exec-server', [], 42],
    ['exec-server-relay', ['--relay'], 14],
  ])('%s %j has an exposure of at most %i', async (name, flags, threshold) => {
    const unit = await writeUnits(name, ...flags);
    const args = ['security', '--offline=true', '--no-pager', `--threshold=${threshold}`, unit];
    const { status, stdout } = spawnSync('systemd-analyze', args, { encoding: 'utf8' });
    expect([status, stdout.trim().split('\n').at(-1)]).toEqual([
      0,
      expect.stringContaining('exposure level'),
    ]);
  });
});

describe.skipIf(!has('systemd-socket-activate'))('a socket that systemd passes', () => {
  /** Lets a tool of systemd listen, and start the server with the first connection. */
  async function activate(stream: string, listen: string) {
    const args = ['-l', stream, process.execPath, CLI, 'serve', '--listen', listen];
    const child = spawn('systemd-socket-activate', args, {
      env: { PATH: process.env.PATH, HOME: workspace.path },
    });
    let stderr = '';
    child.stderr.on('data', (chunk) => {
      stderr += chunk;
    });
    while (!stderr.includes('Listening on')) await once(child.stderr, 'data');
    return { child, exited: once(child, 'exit'), stderr: () => stderr };
  }

  test('serves clients, and programs do not inherit it', async () => {
    const socket = join(workspace.path, 'passed.sock');
    const { child, exited } = await activate(socket, `unix://${socket}`);
    const script = 'echo "fds:$LISTEN_FDS"; ls -l /proc/self/fd | grep -c socket:';
    const { stdout } = await workspace.run(['run', '-E', `unix://${socket}`, 'sh', '-c', script]);
    expect(stdout).toBe('fds:\n0\n');
    child.kill('SIGTERM');
    expect(await exited).toEqual([0, null]);
  });

  test('is refused when other users can open it', async () => {
    const socket = join(workspace.path, 'open.sock');
    const { exited, stderr } = await activate(socket, `unix://${socket}`);
    chmodSync(socket, 0o666);
    const client = connect(socket).on('error', () => {});
    expect(await exited).toEqual([1, null]);
    client.destroy();
    expect(stderr()).toContain('would serve other users: its mode is 0666; set SocketMode=0600');
  });

  test('serves a port, and refuses one that --listen does not name', async () => {
    await onFreePort(async (port) => {
      const url = `ws://127.0.0.1:${port}`;
      const { child, exited } = await activate(`127.0.0.1:${port}`, url);
      expect((await fetch(`http://127.0.0.1:${port}/readyz`)).status).toBe(200);
      child.kill('SIGTERM');
      expect(await exited).toEqual([0, null]);

      const other = await activate(`127.0.0.1:${port}`, 'ws://127.0.0.1:1');
      await fetch(`http://127.0.0.1:${port}/readyz`).catch(() => {});
      expect(await other.exited).toEqual([1, null]);
      expect(other.stderr()).toContain(`passed 127.0.0.1:${port}, but --listen names 127.0.0.1:1`);
    });
  });
});

/** Starts `service` or `drain` with a systemctl that does what the script says, and records how it was called. */
function startWithSystemctl(script: string, ...args: string[]) {
  const bin = join(workspace.path, 'bin');
  const log = join(workspace.path, 'calls');
  mkdirSync(bin, { recursive: true });
  writeFileSync(join(bin, 'systemctl'), `#!/bin/sh\necho "$@" >> ${log}\n${script}\n`);
  chmodSync(join(bin, 'systemctl'), 0o755);
  writeFileSync(log, '');
  const command = args[0] === 'drain' ? args : ['service', ...args];
  const run = workspace.start(command, { PATH: `${bin}:/usr/bin:/bin`, XDG_RUNTIME_DIR: workspace.path });
  run.child.stdin.end();
  return {
    child: run.child,
    outcome: run.outcome.then((outcome) => ({ ...outcome, calls: readFileSync(log, 'utf8') })),
  };
}

/** Runs `service` or `drain` to its end. */
const withSystemctl = (script: string, ...args: string[]) => startWithSystemctl(script, ...args).outcome;

const config = join(workspace.path, '.config');

test('drain --service ends the server of the unit, and lists what it waits for; status --json reports none', async () => {
  const unit = await workspace.run(['service', 'install', '--user', '--dry-run']);
  expect(unit.stdout).toContain('RuntimeDirectory=exec-server-service\n');
  const [, pidFile] = / --pid-file %t\/(\S+)/.exec(unit.stdout)!;
  mkdirSync(join(workspace.path, 'exec-server-service'));
  const server = await startServerProcess(['--pid-file', join(workspace.path, pidFile!)]);
  const client = await server.connect();
  await client.call('process/start', shell('job', 'exec sleep 60'));
  const { pid } = server.process;
  const drain = startWithSystemctl(`echo ${pid}`, 'drain', '--service', '--user', '--timeout', '1h');
  let printed = '';
  drain.child.stderr.on('data', (text) => {
    printed += text;
  });
  await waitFor('the list', () => printed.includes('those that are left end at '));
  expect(printed).toMatch(/^process \d+ drains; .*\nREF .*\n\w+ .* sleep 60'?\nthose that are left end at /);
  await client.call('process/terminate', { processId: 'job' });
  await client.closedProcess('job');
  await client.close();
  expect(await drain.outcome).toMatchObject({
    code: 0,
    stderr: expect.stringMatching(/^process \d+ has ended$/m),
    calls: expect.stringMatching(/^--user show .*MainPID/),
  });

  const status = await withSystemctl('echo x', 'status', '--user', '--json');
  expect([status.code, JSON.parse(status.stdout)]).toMatchObject([
    1,
    { installed: false, service: 'absent' },
  ]);
  const none = await withSystemctl('echo 0', 'drain', '--service');
  expect(none).toMatchObject({
    code: 0,
    stderr: 'no server is running\n',
    calls: expect.not.stringContaining('--user'),
  });
});

test.each([[[]], [['--user']], [['--run-as', 'daemon']]])(
  'the unit of a server owns its control groups, that of a relay has none: %j',
  async (flags) => {
    const install = (...more: string[]) => workspace.run(['service', 'install', '--dry-run', ...more]);
    const service = (await install(...flags)).stdout;
    expect(service).toMatch(/^\[Service\]\n(?:.+\n)*Delegate=yes\n/m);
    // A program that runs out of memory does not end the server.
    expect(service).toMatch(/^OOMPolicy=continue$/m);
    if (!flags.includes('--run-as'))
      expect((await install('--relay', ...flags)).stdout).not.toContain('Delegate');
  },
);

test('writes nothing where systemd does not run, or systemctl is not installed', async () => {
  const absent = 'echo "System has not been booted with systemd as init system" >&2; exit 1';
  const { code, stderr } = await withSystemctl(absent, 'install', '--user');
  expect([code, stderr]).toEqual([1, expect.stringContaining('in a container, start `exec-server serve`')]);
  const without = await workspace.run(['service', 'install', '--user'], { PATH: '/nonexistent' });
  expect([without.code, without.stderr]).toEqual([1, expect.stringContaining('systemctl is not installed')]);
  expect(existsSync(config)).toBe(false);
});

test('refuses an empty token, and writes nothing', async () => {
  const token = join(config, 'exec-server/service-token');
  mkdirSync(dirname(token), { recursive: true });
  writeFileSync(token, '\n');
  const { code, stderr } = await withSystemctl('exit 0', 'install', '--user');
  expect([code, stderr]).toEqual([1, expect.stringContaining(`${token} is empty; remove it`)]);
  expect(readdirSync(config, { recursive: true })).toEqual(['exec-server', 'exec-server/service-token']);
  rmSync(config, { recursive: true });
});

test('escapes specifiers in paths, and refuses control characters', async () => {
  const install = (folder: string) =>
    workspace.run(['service', 'install', '--user', '--dry-run'], { XDG_CONFIG_HOME: folder });
  expect((await install('/cfg 100%h')).stdout).toContain(
    '\nEnvironmentFile=/cfg 100%%h/exec-server/exec-server.env\n',
  );
  const { code, stdout, stderr } = await install('/cfg\nUser=root');
  expect([code, stdout, stderr]).toEqual([1, '', expect.stringContaining('has a control character')]);
});

test('keeps the token and changed settings, and removes what is unchanged', async () => {
  await withSystemctl('exit 0', 'install', '--user');
  const token = join(config, 'exec-server/service-token');
  const settings = join(config, 'exec-server/exec-server.env');
  const before = readFileSync(token, 'utf8');
  expect(statSync(token).mode & 0o777).toBe(0o600);
  const units = readdirSync(join(config, 'systemd/user')).map((name) =>
    readFileSync(join(config, 'systemd/user', name), 'utf8'),
  );
  for (const text of [...units, readFileSync(settings, 'utf8')]) expect(text).not.toContain(before.trim());
  const digest = execFileSync('sha256sum', { input: before.trim(), encoding: 'utf8' }).split(' ')[0];
  expect(readFileSync(settings, 'utf8')).toContain(`EXEC_SERVER_WS_TOKEN_SHA256=${digest}`);

  writeFileSync(settings, `${readFileSync(settings, 'utf8')}EXEC_SERVER_METRICS=true\n`);
  const { stdout } = await withSystemctl('exit 0', 'install', '--user', '--listen', 'ws://127.0.0.1:4001');
  expect(stdout).toContain('To use changed files now');
  expect(readFileSync(token, 'utf8')).toBe(before);
  expect(readFileSync(settings, 'utf8')).toContain('EXEC_SERVER_METRICS=true');

  const unit = join(config, 'systemd/user/exec-server.service');
  const text = readFileSync(unit, 'utf8');
  writeFileSync(unit, `${text}# mine\n`);
  const refused = await withSystemctl('exit 0', 'install', '--user');
  expect([refused.code, refused.stderr]).toEqual([
    1,
    expect.stringContaining(`${unit} exist and were changed`),
  ]);
  expect(readFileSync(unit, 'utf8')).toContain('# mine');
  await withSystemctl('exit 0', 'install', '--user', '--listen', 'ws://127.0.0.1:4001', '--force');
  expect(readFileSync(unit, 'utf8')).toBe(text);

  mkdirSync(`${unit}.d`);
  const removed = await withSystemctl('exit 0', 'uninstall', '--user');
  expect(removed.stdout).toContain(`kept ${settings}`);
  expect(removed.stdout).toContain(`kept ${unit}.d (changes by 'systemctl --user edit')\n`);
  expect(existsSync(token)).toBe(true);
  expect(readdirSync(dirname(unit))).toEqual(['exec-server.service.d']);
  expect(removed.calls).toBe(
    '--user disable --now exec-server.socket exec-server.service\n--user daemon-reload\n',
  );
  // The units do not exist any more, and systemctl fails for such units.
  const rest = await withSystemctl('[ "$2" != disable ]', 'uninstall', '--user', '--force');
  expect([rest.code, rest.calls]).toEqual([0, '--user daemon-reload\n']);
  expect(existsSync(join(config, 'exec-server'))).toBe(false);
  rmSync(config, { recursive: true });
});

test.each([
  [
    ['--listen', 'wss://127.0.0.1:4443'],
    'wss://127.0.0.1:4443 needs EXEC_SERVER_TLS_CERT and EXEC_SERVER_TLS_KEY in the settings',
  ],
  [
    ['--relay', '--listen', 'https://[::1]:4443'],
    'needs --tls-cert FILE --tls-key FILE in RELAY_OPTIONS in the settings',
  ],
  [['--relay', '--listen', 'http://0.0.0.0:4080'], 'needs --insecure-no-tls in RELAY_OPTIONS, and a proxy'],
])('install --user %j says what the settings still need', async (flags, text) => {
  const { code, stdout } = await withSystemctl('exit 0', 'install', '--user', ...flags);
  expect([code, stdout]).toEqual([0, expect.stringContaining(text)]);
  await withSystemctl('exit 0', 'uninstall', '--user', ...flags.slice(0, -2));
  expect((await withSystemctl('exit 0', 'install', '--user')).stdout).not.toContain(' needs ');
  await withSystemctl('exit 0', 'uninstall', '--user');
});

test.each([
  [['install', '--listen', 'ws://127.0.0.1:0'], 'with a fixed port'],
  [['install', '--listen', 'http://127.0.0.1:1'], '--listen: '],
  [['install', '--relay', '--listen', 'ws://127.0.0.1:1'], '--listen: '],
  [['install', '--user', '--run-as', 'me'], '--run-as is for'],
  [['install', '--run-as', 'a b'], 'not the name of an account'],
  [['start'], "unknown action 'start'; write install, uninstall or status"],
  [[], 'nothing to do'],
])('refuses %j', async (args, problem) => {
  const { code, stderr } = await workspace.run(['service', ...args]);
  expect([code, stderr]).toEqual([2, expect.stringContaining(problem)]);
});
