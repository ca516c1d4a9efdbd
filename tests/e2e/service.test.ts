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
import { startServerProcess } from '../../src/testing/index.ts';
import { onFreePort } from '../support/free-port.ts';
import { shell } from '../support/programs.ts';
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
    const files = [unit, unit.replace(/service$/, 'socket')];
    const { status, stderr } = spawnSync('systemd-analyze', [...manager, '--man=no', 'verify', ...files], {
      encoding: 'utf8',
      env: { ...process.env, XDG_RUNTIME_DIR: workspace.path },
    });
    // Units of the machine may have problems of their own.
    expect(stderr.split('\n').filter((line) => line.includes('exec-server'))).toEqual([]);
    expect(status).toBe(0);
  });

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

/** Runs `service` or `drain` with a systemctl that does what the script says, and records how it was called. */
async function withSystemctl(script: string, ...args: string[]) {
  const bin = join(workspace.path, 'bin');
  const log = join(workspace.path, 'calls');
  mkdirSync(bin, { recursive: true });
  writeFileSync(join(bin, 'systemctl'), `#!/bin/sh\necho "$@" >> ${log}\n${script}\n`);
  chmodSync(join(bin, 'systemctl'), 0o755);
  writeFileSync(log, '');
  const command = args[0] === 'drain' ? args : ['service', ...args];
  const outcome = await workspace.run(command, {
    PATH: `${bin}:/usr/bin:/bin`,
    XDG_RUNTIME_DIR: workspace.path,
  });
  return { ...outcome, calls: readFileSync(log, 'utf8') };
}

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
  const drained = await withSystemctl(`echo ${pid}`, 'drain', '--service', '--user', '--timeout', '1ms');
  expect(drained).toMatchObject({ code: 0, calls: expect.stringMatching(/^--user show .*MainPID/) });
  expect(drained.stderr).toMatch(
    /^process \d+ drains; .*\nREF .*\n\w+ .* sleep 60'?\nthose that are left end at /,
  );
  await client.close();

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

  const removed = await withSystemctl('exit 0', 'uninstall', '--user');
  expect(removed.stdout).toContain(`kept ${settings}`);
  expect(existsSync(token)).toBe(true);
  expect(existsSync(join(config, 'systemd/user'))).toBe(false);
  expect(removed.calls).toBe(
    '--user disable --now exec-server.socket exec-server.service\n--user daemon-reload\n',
  );
  await withSystemctl('exit 0', 'uninstall', '--user', '--force');
  expect(existsSync(join(config, 'exec-server'))).toBe(false);
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
