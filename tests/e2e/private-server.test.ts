import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, expect, test, vi } from 'vitest';
import { WebSocketServer } from 'ws';
import { withStarter } from '../../src/cli/environments/with-client.ts';
import { REPORT_LOSS_MS } from '../../src/cli/programs/limits.ts';
import { startFailure } from '../../src/cli/programs/start-failure.ts';
import { CommandUser, isAlive } from '../support/private-server.ts';
import { waitFor } from '../support/wait-for.ts';
import { CLI, firstLine } from '../unit/cli/run-cli.ts';

const users: CommandUser[] = [];
afterEach(async () => {
  for (const user of users.splice(0)) await user.close();
});

function newUser(): CommandUser {
  const user = new CommandUser();
  users.push(user);
  return user;
}

const TEST = ['env', 'test', '--json'];

/** Processes of this user's private servers, however they came about. */
function servers(user: CommandUser): number[] {
  const { stdout } = spawnSync('sh', ['-c', 'grep -lzs __private-server /proc/[0-9]*/cmdline'], {
    encoding: 'utf8',
  });
  const pids = stdout.split('\n').flatMap((line) => /\d+/.exec(line)?.map(Number) ?? []);
  // The memory behind /proc/PID/environ is overwritten, so the log file shows whose server it is.
  return pids.filter((pid) => {
    const link = spawnSync('readlink', [`/proc/${pid}/fd/2`], { encoding: 'utf8' });
    return link.stdout.startsWith(user.folder);
  });
}

test('the first command starts a server that later commands share, and only this user can open', async () => {
  const user = newUser();
  const first = await user.run(TEST);
  expect(first).toMatchObject({ code: 0, stderr: '' });
  expect(JSON.parse(first.stdout)).toMatchObject({ name: 'local', environment: { platformOs: 'linux' } });
  const pid = user.serverPid;
  expect(await user.run(TEST)).toMatchObject({ code: 0 });
  expect(user.serverPid).toBe(pid);
  expect(statSync(user.folder).mode & 0o777).toBe(0o700);
  expect(statSync(join(user.folder, 'server.sock')).mode & 0o777).toBe(0o600);
  // A working directory would keep its file system from being unmounted.
  expect(spawnSync('readlink', [`/proc/${pid}/cwd`], { encoding: 'utf8' }).stdout.trim()).toBe('/');
});

test('the server does not keep the locks and the pipes of the command that started it', async () => {
  const user = newUser();
  const file = openSync(user.workspace.file('lock', ''), 'w');
  const stdio = Array.from({ length: 201 }, (_, descriptor) =>
    [3, 20, 200].includes(descriptor) ? file : 'ignore',
  );
  const env = { PATH: process.env.PATH, HOME: user.workspace.path, ...user.env };
  const { status } = spawnSync(process.execPath, [CLI, ...TEST], { env, stdio });
  closeSync(file);
  expect(status).toBe(0);
  const { stdout } = spawnSync('ls', ['-l', `/proc/${user.serverPid}/fd`], { encoding: 'utf8' });
  expect(stdout).toContain(join(user.folder, 'server.log'));
  expect(stdout).not.toContain(join(user.workspace.path, 'lock'));
});

/** A server that another one was faster than ends by itself, a moment later. */
async function oneServer(user: ReturnType<typeof newUser>): Promise<void> {
  await waitFor('the other servers to end', () => servers(user).length === 1);
  expect(servers(user)).toEqual([user.serverPid]);
}

test('commands that run at the same time start one server', async () => {
  const user = newUser();
  const outcomes = await Promise.all(Array.from({ length: 20 }, () => user.run(TEST)));
  for (const outcome of outcomes) expect(outcome).toMatchObject({ code: 0, stderr: '' });
  await oneServer(user);
});

test('the next command works after kill -9 at any moment', async () => {
  const user = newUser();
  for (let round = 0; round < 6; round++) {
    const command = user.start(TEST);
    // Moments of the start: the command begins, the server is claimed, starts, listens, serves.
    const moments = [
      () => true,
      () => readable(join(user.folder, 'starting')) !== null,
      () => (readable(join(user.folder, 'starting')) ?? '') !== '',
      () => servers(user).length > 0,
      () => user.serverPid !== null,
      () => command.child.exitCode !== null,
    ];
    await waitFor('the moment', () => moments[round]!() || command.child.exitCode !== null);
    for (const pid of servers(user)) process.kill(pid, 'SIGKILL');
    if (round < 2) command.child.kill('SIGKILL');
    await command.outcome;
    expect(await user.run(TEST), `round ${round}`).toMatchObject({ code: 0, stderr: '' });
    await oneServer(user);
    const pid = user.serverPid!;
    process.kill(pid, 'SIGKILL');
    await waitFor('the end of the server', () => !isAlive(pid));
  }
});

test('ends when it is idle and removes its socket; a running client keeps it', async () => {
  const user = newUser();
  const env = { EXEC_SERVER_IDLE_TIMEOUT_MS: '300ms' };
  const proxy = user.start(['proxy'], env);
  proxy.child.stdin.write(
    '{"id":1,"method":"initialize","params":{"clientName":"test","detachedSessionTtlMs":0}}\n',
  );
  expect(JSON.parse(await firstLine(proxy))).toMatchObject({
    id: 1,
    result: { sessionId: expect.any(String) },
  });
  const pid = user.serverPid!;
  // Two other clients come and go meanwhile, which takes longer than the timeout.
  await user.run(TEST);
  await user.run(TEST);
  expect(user.serverPid).toBe(pid);
  proxy.child.stdin.end();
  expect(await proxy.outcome).toMatchObject({ code: 0, stderr: '' });
  await user.serverEnded(pid);
  expect(await user.run(TEST)).toMatchObject({ code: 0 });
});

test('a server of another version is used, and replaced when it is idle', async () => {
  const user = newUser();
  await user.run(TEST);
  const pid = user.serverPid!;
  writeFileSync(join(user.folder, 'server.json'), `${JSON.stringify({ pid, version: '0.0.1' })}\n`);
  expect(await user.run(TEST)).toMatchObject({ code: 0, stderr: '' });
  await user.serverEnded(pid);
  expect(await user.run(TEST)).toMatchObject({ code: 0 });
  expect(user.serverPid).not.toBe(pid);
});

test('a command waits for a server that drains, and starts the next one', async () => {
  const user = newUser();
  const job = user.start(['run', 'sh', '-c', 'echo ready; cat']);
  await firstLine(job);
  const drain = user.start(['drain']);
  await once(drain.child.stderr, 'data');
  const next = user.start(['run', '-n', 'echo', 'next']);
  await once(next.child.stderr, 'data');
  job.child.stdin.end();
  expect(await job.outcome).toMatchObject({ code: 0 });
  expect(await drain.outcome).toMatchObject({ code: 0 });
  expect(await next.outcome).toMatchObject({
    code: 0,
    stdout: 'next\n',
    stderr: expect.stringContaining('the private server is draining; waiting until its programs have ended'),
  });
});

test('a command starts a server when the one that it found ends during the handshake', async () => {
  const user = newUser();
  mkdirSync(user.folder, { mode: 0o700 });
  const ending = createHttpServer();
  const found = once(ending, 'upgrade');
  new WebSocketServer({ server: ending }).on('connection', (socket) => {
    socket.close(1001, 'the server has drained');
    ending.close();
  });
  await once(ending.listen(join(user.folder, 'server.sock')), 'listening');
  expect(await user.run(['run', 'echo', 'next'])).toMatchObject({ code: 0, stdout: 'next\n', stderr: '' });
  await found;
});

test('commands look at programs of a server that drains, and end them', async () => {
  const user = newUser();
  const started = await user.run(['run', '-d', '--name', 'job', '-i', 'sh', '-c', 'echo ready; cat']);
  expect(started.code).toBe(0);
  const drain = user.start(['drain']);
  let printed = '';
  drain.child.stderr.on('data', (text) => {
    printed += text;
  });
  await waitFor('the list', () => / job +\d+s +sh /.test(printed));
  expect(await user.run(['ps', '--json'])).toMatchObject({ stdout: expect.stringContaining('"job"') });
  expect(await user.run(['logs', 'job'])).toMatchObject({ code: 0, stdout: 'ready\n' });
  user.workspace.file('result', 'done');
  const result = join(user.workspace.path, 'result');
  expect(await user.run(['cp', `local:${result}`, 'copy'])).toMatchObject({ code: 0 });
  const folder = join(user.workspace.path, 'results');
  mkdirSync(folder);
  expect(await user.run(['sync', `local:${folder}`, 'synced'])).toMatchObject({ code: 0 });
  const attached = user.start(['attach', 'job']);
  await once(attached.child.stdout, 'data');
  expect(await user.run(['wait', '--timeout', '1ms', 'job'])).toMatchObject({ code: 124 });
  expect(await user.run(['kill', 'job'])).toMatchObject({ code: 0, stderr: '' });
  expect(await attached.outcome).toMatchObject({ code: 137 });
  expect(await drain.outcome).toMatchObject({ code: 0 });
});

test('a program that the server refuses, because it drains since the connection, starts in the next one', async () => {
  const user = newUser();
  expect(await user.run(TEST)).toMatchObject({ code: 0 });
  const pids: (number | null)[] = [];
  const host = { env: { ...user.env, PATH: process.env.PATH, HOME: user.workspace.path } };
  // The next server is started as this program.
  vi.spyOn(process, 'argv', 'get').mockReturnValue([process.execPath, CLI]);
  const exitCode = await withStarter({}, host, { clientName: 'test' }, async ({ client, target }) => {
    const place = { target, tokenFile: null };
    const pid = user.serverPid;
    if (pids.push(pid) === 1) {
      const draining = new Promise((resolve) => client.onNotification('server/draining', resolve));
      process.kill(pid!, 'SIGUSR2');
      await draining;
    }
    const started = await client.spawn(['true']).catch((error) => {
      throw startFailure(error, ['true'], place, false);
    });
    return (await started.wait()).exitCode;
  }).finally(() => vi.restoreAllMocks());
  expect(exitCode).toBe(0);
  expect(pids).toHaveLength(2);
  expect(pids[1]).not.toBe(pids[0]);
});

test('run prints all that it has received from a server that has drained', async () => {
  const user = newUser();
  const size = 600_000;
  const job = user.start(['run', 'sh', '-c', `echo ready; cat; head -c ${size} /dev/zero`]);
  await firstLine(job);
  job.child.stdout.pause();
  job.child.stdin.end();
  expect(await user.run(['drain'])).toMatchObject({ code: 0 });
  // Meanwhile the command notices that the server is gone.
  await delay(3 * REPORT_LOSS_MS);
  job.child.stdout.resume();
  const { code, stdout, stderr } = await job.outcome;
  expect({ code, bytes: stdout.length, stderr: stderr.includes('has ended,') }).toEqual({
    code: 0,
    bytes: 'ready\n'.length + size,
    stderr: false,
  });
});

test('a stale socket and a stale claim are replaced', async () => {
  const user = newUser();
  mkdirSync(user.folder, { mode: 0o755 });
  const listener = createServer().listen(join(user.folder, 'server.sock'));
  await waitFor('the socket', () => listener.listening);
  // A killed process leaves its socket; `close` would remove it.
  spawnSync('mv', [join(user.folder, 'server.sock'), join(user.folder, 'moved')]);
  listener.close();
  spawnSync('mv', [join(user.folder, 'moved'), join(user.folder, 'server.sock')]);
  const ended = spawnSync('true');
  writeFileSync(join(user.folder, 'starting'), String(ended.pid));
  expect(await user.run(TEST)).toMatchObject({ code: 0, stderr: '' });
  expect(statSync(user.folder).mode & 0o777).toBe(0o700);
});

test('a claim that is later than the clock, which was set back, keeps no command from starting the server', async () => {
  const user = newUser();
  mkdirSync(user.folder, { mode: 0o700 });
  const claim = join(user.folder, 'starting');
  writeFileSync(claim, String(process.pid));
  const later = new Date(Date.now() + 3_600_000);
  utimesSync(claim, later, later);
  expect(await user.run(TEST)).toMatchObject({ code: 0, stderr: '' });
});

test('settings of private.toml apply, and a wrong one is reported by the command', async () => {
  const user = newUser();
  const config = join(user.workspace.path, '.config', 'exec-server');
  mkdirSync(config, { recursive: true });
  // Settings of servers are for other servers.
  writeFileSync(join(config, 'config.toml'), 'wsAuth = "capability-token"\n');
  writeFileSync(join(config, 'private.toml'), 'maxSessions = 0\n');
  expect(await user.run(['env', 'test'])).toMatchObject({
    code: 125,
    stderr: expect.stringMatching(
      /^exec-server: the private server ended while it started: maxSessions .*the number 0 is below 1/,
    ),
  });
  writeFileSync(join(config, 'private.toml'), 'maxSessions = 7\n');
  expect(await user.run(TEST)).toMatchObject({ code: 0, stderr: '' });
});

test.each<[string, (user: CommandUser) => void, RegExp]>([
  [
    'a link in place of the directory',
    (user) => symlinkSync(user.workspace.path, user.folder),
    /is not a directory of this user/,
  ],
  [
    'a file in place of the directory',
    (user) => writeFileSync(user.folder, ''),
    /is not a directory of this user/,
  ],
])('refuses %s', async (_name, prepare, message) => {
  const user = newUser();
  prepare(user);
  expect(await user.run(TEST)).toMatchObject({ code: 125, stderr: expect.stringMatching(message) });
  rmSync(user.folder);
});

test('a link in place of a file in the folder changes no other file', async () => {
  const user = newUser();
  const precious = user.workspace.file('precious', 'precious');
  mkdirSync(user.folder, { mode: 0o700 });
  symlinkSync(precious, join(user.folder, 'server.log'));
  expect(await user.run(TEST)).toMatchObject({
    code: 125,
    stderr: expect.stringContaining('server.log is not a regular file of this user'),
  });
  rmSync(join(user.folder, 'server.log'));
  await user.run(TEST);
  const pid = user.serverPid!;
  symlinkSync(precious, join(user.folder, 'replace'));
  writeFileSync(join(user.folder, 'server.json'), `${JSON.stringify({ pid, version: '0.0.1' })}\n`);
  expect(await user.run(TEST)).toMatchObject({ code: 0, stderr: '' });
  expect(readFileSync(precious, 'utf8')).toBe('precious');
});

test('a directory in place of a file in the folder is reported', async () => {
  const user = newUser();
  for (const name of ['server.sock', 'starting', 'replace']) {
    const path = join(user.folder, name);
    mkdirSync(path, { recursive: true, mode: 0o700 });
    const { code, stderr } = await user.run(TEST);
    expect([code, JSON.parse(stderr).message]).toEqual([
      125,
      expect.stringContaining(`${path} is not a regular file of this user with one name`),
    ]);
    rmSync(user.folder, { recursive: true });
  }
  expect(await user.run(TEST)).toMatchObject({ code: 0 });
});

test('programs in a sandbox can neither open the folder nor move it away', async () => {
  const user = newUser();
  const attack = `cd ${user.runtime}; touch ok; touch exec-server/replace; ls exec-server; mv exec-server away`;
  const policy = user.workspace.file('policy.json', '{"type":"workspaceWrite","networkAccess":true}');
  const args = ['run', '--sandbox', policy, '-w', user.workspace.path, 'sh', '-c', attack];
  const { code, stdout } = await user.run(args);
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
  expect(readdirSync(user.runtime).sort()).toEqual(['exec-server', 'ok']);
  expect(existsSync(join(user.folder, 'replace'))).toBe(false);
  const pid = user.serverPid;
  expect(await user.run(TEST)).toMatchObject({ code: 0 });
  expect(user.serverPid).toBe(pid);
});

test('a path that is too long for a socket is reported', async () => {
  const user = newUser();
  const runtime = join(user.workspace.path, 'x'.repeat(100));
  mkdirSync(runtime);
  expect(await user.run(TEST, { XDG_RUNTIME_DIR: runtime })).toMatchObject({
    code: 125,
    stderr: expect.stringContaining('set XDG_RUNTIME_DIR to a shorter one'),
  });
});

test('proxy resumes a session that an earlier proxy has opened', async () => {
  const user = newUser();
  const first = user.start(['proxy']);
  first.child.stdin.write('{"id":1,"method":"initialize","params":{"clientName":"test"}}\n');
  const { sessionId } = JSON.parse(await firstLine(first)).result;
  first.child.kill('SIGKILL');
  await first.outcome;
  const second = user.start(['proxy']);
  const resume = { clientName: 'test', resumeSessionId: sessionId };
  second.child.stdin.write(`${JSON.stringify({ id: 1, method: 'initialize', params: resume })}\n`);
  expect(JSON.parse(await firstLine(second))).toMatchObject({ result: { sessionId } });
  second.child.stdin.end();
  expect(await second.outcome).toMatchObject({ code: 0, stderr: '' });
});

const STATUS = '{"id":2,"method":"environment/status"}';

test.each([
  ['requests', ['{"id":1,"method":"initialize","params":{}}', '{"method":"initialized"}', STATUS], [1, 2]],
  ['a text that is no request', ['nonsense'], [-1]],
])('proxy prints the answers to %s after the end of stdin', async (_what, lines, ids) => {
  const user = newUser();
  const proxy = user.start(['proxy']);
  proxy.child.stdin.end(`${lines.join('\n')}\n`);
  const { code, stdout, stderr } = await proxy.outcome;
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  const answers = stdout.trimEnd().split('\n');
  expect(answers.map((line) => JSON.parse(line).id)).toEqual(ids);
});

test('proxy leaves its session sooner when sshd has started it: its client may come back over another connection', async () => {
  const user = newUser();
  const { stdout } = await user.run(['run', '-d', 'sleep', '1000']);
  /** Starts a proxy, whose stdin ends behind a request that is not answered. */
  const start = async (env: Readonly<Record<string, string>>) => {
    const proxy = user.start(['proxy'], env);
    const params = { clientName: 'test', capabilities: { processSharing: true } };
    proxy.child.stdin.write(`${JSON.stringify({ id: 1, method: 'initialize', params })}\n`);
    await firstLine(proxy);
    const wait = { id: 2, method: 'process/wait', params: { processId: stdout.trim(), until: 'exited' } };
    proxy.child.stdin.end(`{"method":"initialized"}\n${JSON.stringify(wait)}\n`);
    return proxy;
  };
  // This one ends first if both wait for the same time.
  const local = await start({});
  const remote = await start({ SSH_CONNECTION: '127.0.0.1 1 127.0.0.1 22' });
  const ended = [local, remote].map(({ child, outcome }) => outcome.then(() => child.pid));
  expect(await Promise.race(ended)).toBe(remote.child.pid);
  const stderr = 'exec-server: one request is not answered; keep stdin open until the answers have come\n';
  expect(await remote.outcome).toMatchObject({ code: 125, stderr });
  local.child.kill('SIGKILL');
});

test('programs do not inherit the variables of the command that started the server', async () => {
  const user = newUser();
  await user.run(TEST, { EXEC_SERVER_TOKEN: 'secret-token', EXEC_SERVER_LISTEN: 'stdio' });
  expect(readFileSync(`/proc/${user.serverPid}/cmdline`, 'utf8')).toContain(CLI);
  expect(spawnSync('grep', ['-c', 'secret-token', `/proc/${user.serverPid}/environ`]).status).not.toBe(0);
});

function readable(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return null;
  }
}

test('in a directory that was deleted, commands work that need none, and the others say so', () => {
  const user = newUser();
  const script = `mkdir gone && cd gone && rmdir ../gone || exit
for command in ps use 'run -- true' 'cp local:/etc/hostname copy' 'use local'; do "$1" "$2" $command 2>&1; echo $?; done`;
  const { stdout } = spawnSync('sh', ['-c', script, 'sh', process.execPath, CLI], {
    cwd: user.workspace.path,
    encoding: 'utf8',
    env: { PATH: process.env.PATH, HOME: user.workspace.path, ...user.env },
  });
  const gone = 'exec-server: the current directory no longer exists; cd elsewhere\n125\n';
  expect(stdout).toMatch(/^REF .*\n0\nlocal\t.*\n0\n/);
  expect(stdout.slice(stdout.indexOf('exec-server:'))).toBe(gone.repeat(3));
});

test.runIf(process.geteuid?.() === 0)('a user without a home directory needs no configuration', () => {
  const user = newUser();
  const uid = 1_234_567;
  chmodSync(user.workspace.path, 0o755);
  chownSync(user.runtime, uid, uid);
  const options = { uid, gid: uid, encoding: 'utf8', env: { PATH: process.env.PATH, ...user.env } } as const;
  const outcome = spawnSync(process.execPath, [CLI, 'run', '--', 'echo', 'started'], options);
  expect(outcome).toMatchObject({ status: 0, stdout: 'started\n', stderr: '' });
});

const mayMount = spawnSync('unshare', ['-rm', 'mount', '-t', 'tmpfs', 'none', '/mnt']).status === 0;

test.skipIf(!mayMount)('on a full disk the error names the file, and no socket is left', () => {
  const user = newUser();
  const script = `mount -t tmpfs -o size=64k,mode=700 none "$1" && cd "$1" && cat /dev/zero > fill
for filled in 64k 60k; do truncate -s $filled fill; "$2" "$3" ps 2>&1; ls exec-server; done`;
  const args = ['-rm', 'sh', '-c', script, 'sh', user.runtime, process.execPath, CLI];
  const { stdout } = spawnSync('unshare', args, {
    encoding: 'utf8',
    env: { PATH: process.env.PATH, HOME: user.workspace.path, ...user.env },
  });
  const [starting, info] = ['starting', 'server.json'].map((name) => join(user.folder, name));
  expect(stdout.split('\n')).toEqual([
    `exec-server: cannot write ${starting} for the private server: no space left on device; free some space, or choose another path`,
    'server.log',
    `exec-server: the private server ended while it started: cannot write the description of the private server ${info}: the disk is full (free some space, or choose another path)`,
    'server.lock',
    'server.log',
    '',
  ]);
});
