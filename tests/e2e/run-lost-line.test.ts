import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, openSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { ExecServerClient } from '../../src/client/client.ts';
import { TcpProxy } from '../../src/testing/index.ts';
import { collect } from '../support/collect.ts';
import { MessageProxy } from '../support/message-proxy.ts';
import { CommandUser, isAlive } from '../support/private-server.ts';
import { TcpProxy as ReplaceableTarget } from '../support/tcp-proxy.ts';
import { HAS_TMUX, TmuxTerminal } from '../support/tmux.ts';
import { waitFor } from '../support/wait-for.ts';
import { CLI, firstLine } from '../unit/cli/run-cli.ts';

const user = new CommandUser();
/** Clients that ask for nothing else are forgotten quickly. */
const SHORT = ['--detached-session-ttl', '300ms'];
let server: string;
let forgetful: string;
/** Retains too little output to hold it. */
let small: string;
const proxies: TcpProxy[] = [];

beforeAll(async () => {
  [server, forgetful, small] = (await Promise.all([
    firstLine(user.start(['serve'])),
    firstLine(user.start(['serve', ...SHORT, '--max-detached-session-ttl', '300ms'])),
    firstLine(user.start(['serve', '--retained-output-bytes-per-process', '256KiB'])),
  ])) as [string, string, string];
});

afterAll(async () => {
  for (const proxy of proxies) await proxy.close();
  await user.close();
});

async function proxyTo(url: string): Promise<TcpProxy> {
  const proxy = await TcpProxy.open(url);
  proxies.push(proxy);
  return proxy;
}

/** Prints the numbers up to `last`, and waits for a file in between. */
const COUNT = (file: string) =>
  `i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo $i; [ $i -eq 1000 ] && while [ ! -e ${file} ]; do sleep 0.02; done; done; exit 5`;

test('a lost line is restored: nothing is missing, nothing comes twice', async () => {
  const proxy = await proxyTo(server);
  const file = join(user.workspace.path, 'continue');
  const started = user.start(['run', '-E', proxy.url, '--', 'sh', '-c', COUNT(file)]);
  const printed = collect(started);
  await waitFor('the first half', () => printed.stdout.includes('\n1000\n'));
  proxy.interrupt();
  await waitFor('the note', () => printed.stderr.includes('reconnecting'));
  user.workspace.file('continue', '');
  proxy.restore();
  const { code, stdout, stderr } = await started.outcome;
  expect(stderr).toBe(
    'exec-server: reconnecting… (the program should keep running; Ctrl-C twice gives up)\n',
  );
  expect(stdout).toBe(`${Array.from({ length: 3000 }, (_, index) => index + 1).join('\n')}\n`);
  expect(code).toBe(5);
});

test('a line that comes and goes while the program prints loses nothing', async () => {
  const proxy = await proxyTo(server);
  const script = 'i=0; while [ $i -lt 400 ]; do i=$((i+1)); echo $i; sleep 0.002; done; exit 6';
  const started = user.start(['run', '-E', proxy.url, '--', 'sh', '-c', script]);
  const printed = collect(started);
  for (const mark of [50, 150, 250]) {
    await waitFor(`${mark}`, () => printed.stdout.includes(`\n${mark}\n`));
    proxy.interrupt();
    proxy.restore();
  }
  const { code, stdout } = await started.outcome;
  expect(stdout).toBe(`${Array.from({ length: 400 }, (_, index) => index + 1).join('\n')}\n`);
  expect(code).toBe(6);
});

test('a line that is lost in a flood of output loses nothing: the program waits', async () => {
  const proxy = await proxyTo(server);
  const path = join(user.workspace.path, 'numbers');
  const file = openSync(path, 'w');
  const script = 'seq 1 1000000; exit 7';
  const child = spawn(process.execPath, [CLI, 'run', '-E', proxy.url, '--', 'sh', '-c', script], {
    env: user.env,
    stdio: ['ignore', file, 'pipe'],
  });
  closeSync(file);
  const printed = { stderr: '' };
  child.stderr!.on('data', (text) => {
    printed.stderr += text;
  });
  for (const bytes of [1, 3_000_000]) {
    await waitFor('output', () => statSync(path).size >= bytes);
    printed.stderr = '';
    proxy.interrupt();
    await waitFor('the note', () => printed.stderr.includes('reconnecting'));
    proxy.restore();
  }
  const [code] = await once(child, 'close');
  const expected = execFileSync('seq', ['1', '1000000'], { maxBuffer: 10_000_000 });
  expect([code, readFileSync(path).equals(expected)]).toEqual([7, true]);
});

test('output that the server no longer has is reported as a gap, and the exit code is 125', async () => {
  const proxy = await proxyTo(small);
  const file = join(user.workspace.path, 'flood');
  const script = `echo first; while [ ! -e ${file} ]; do sleep 0.02; done; head -c 3000000 /dev/zero | tr '\\0' x; echo; echo last; : > ${file}.done; while [ ! -e ${file}.end ]; do sleep 0.02; done; exit 3`;
  const started = user.start(['run', '-E', proxy.url, '--', 'sh', '-c', script]);
  const printed = collect(started);
  await waitFor('the first line', () => printed.stdout.includes('first'));
  proxy.interrupt();
  user.workspace.file('flood', '');
  await waitFor('the flood', () => existsSync(`${file}.done`));
  proxy.restore();
  await waitFor('the gap', () => printed.stderr.includes('lost'));
  user.workspace.file('flood.end', '');
  const { code, stdout } = await started.outcome;
  const [, lost] = /exec-server: (\d+) bytes of output are lost here;/.exec(printed.stderr) ?? [];
  expect(code).toBe(125);
  expect(printed.stderr).toContain(
    `\nexec-server: the program has exited with 3, and ${lost} bytes of its output are lost; `,
  );
  expect(stdout.length + Number(lost)).toBe('first\n'.length + 3_000_000 + '\nlast\n'.length);
});

test.skipIf(!HAS_TMUX)(
  'a program on a terminal survives a longer loss than the server keeps clients that ask for nothing',
  async () => {
    const url = (await firstLine(user.start(['serve', ...SHORT]))) as string;
    const proxy = await proxyTo(url);
    const tmux = new TmuxTerminal(user.workspace.path, { ...user.env, HOME: user.workspace.path });
    onTestFinished(() => tmux.close());
    const file = join(user.workspace.path, 'long-loss');
    const script = `echo up-$((1+1)); while [ ! -e ${file} ]; do sleep 0.02; done; echo down-$((1+2)); exit 5`;
    tmux.line(`${process.execPath} ${CLI} run -E ${proxy.url} -- sh -c '${script}'; echo code $?`);
    await tmux.shows('up-2');
    const other = await ExecServerClient.connect(proxy.url);
    onTestFinished(() => other.close());
    const pidFile = join(user.workspace.path, 'witness');
    await other.spawn(`echo $$ > ${pidFile}; exec sleep 1000`);
    const witness = await waitFor('the pid', () => existsSync(pidFile) && Number(readFileSync(pidFile)));
    proxy.interrupt();
    await waitFor('the end of the other session', () => !isAlive(witness as number));
    user.workspace.file('long-loss', '');
    proxy.restore();
    await tmux.shows(/down-3[\s\S]*code 5/);
    // The server keeps nothing for a command that has its result.
    const { stdout } = await user.run(['ps', '-a', '--json', '-E', url]);
    expect(JSON.parse(stdout)).toEqual([]);
  },
);

test('a session that the server has ended ends with 125, and stderr says that the program is gone', async () => {
  const proxy = await proxyTo(forgetful);
  const started = user.start(['run', '-E', proxy.url, '--', 'sh', '-c', 'echo $$; exec sleep 1000']);
  const printed = collect(started);
  await waitFor('the pid', () => printed.stdout.includes('\n'));
  proxy.interrupt();
  await waitFor('the program to end', () => !isAlive(Number(printed.stdout)));
  proxy.restore();
  const { code, stderr } = await started.outcome;
  expect(code).toBe(125);
  expect(stderr).toMatch(
    /lost the server: .*; the program no longer runs: the server has ended its session, or was restarted\n$/,
  );
});

test('a private server that was killed ends with 125, and stderr says that the program is gone', async () => {
  const started = user.start(['run', '-n', '--', 'sh', '-c', 'echo started; exec sleep 1000']);
  const printed = collect(started);
  await waitFor('the program', () => printed.stdout === 'started\n');
  process.kill(user.serverPid!, 'SIGKILL');
  expect(await started.outcome).toMatchObject({
    code: 125,
    stderr: 'exec-server: the private server has ended, and the program with it; run the program again\n',
  });
});

test('logs -f ends with 125 when the private server was killed, and says that the program is gone', async () => {
  const { stdout } = await user.run(['run', '-d', '--', 'sh', '-c', 'echo started; exec sleep 1000']);
  const started = user.start(['logs', '-f', stdout.trim()]);
  const printed = collect(started);
  await waitFor('the output', () => printed.stdout === 'started\n');
  process.kill(user.serverPid!, 'SIGKILL');
  expect(await started.outcome).toMatchObject({
    code: 125,
    stderr: 'exec-server: the private server has ended, and the program with it; run the program again\n',
  });
});

test.each([
  ['logs -f', ['logs', '-f'], 'process/attach'],
  ['wait', ['wait'], 'process/wait'],
  ['attach --read-only', ['attach', '--read-only'], 'process/attach'],
])('%s says that a server which was restarted no longer has the program', async (_name, command, method) => {
  const first = user.start(['serve']);
  const url = (await firstLine(first)) as string;
  const started = await user.run(['run', '-d', '-E', url, '--name', 'job', '--', 'sleep', '1000']);
  expect(started.code).toBe(0);
  let isAnswered = false;
  const ids = new Set<number>();
  const proxy = await MessageProxy.open(url, ({ direction, text }) => {
    const { id, method: called } = JSON.parse(text);
    if (direction === 'toServer' && called === method) ids.add(id);
    isAnswered ||= method === 'process/wait' ? ids.size > 0 : direction === 'toClient' && ids.has(id);
    return 'pass';
  });
  onTestFinished(() => proxy.close());
  const followed = user.start([...command, '-E', proxy.url, 'job']);
  await waitFor('the command', () => isAnswered);
  first.child.kill('SIGKILL');
  await first.outcome;
  const second = user.start(['serve']);
  proxy.target = (await firstLine(second)) as string;
  const { code, stderr } = await followed.outcome;
  expect([code, stderr.split('\n').at(-2)]).toEqual([
    125,
    'exec-server: the server no longer has job: it was restarted, or the process was removed; run the program again',
  ]);
  second.child.kill();
  await second.outcome;
});

test('a server that stays away ends with 125, and stderr has the command that attaches', async () => {
  const proxy = await proxyTo(forgetful);
  const started = user.start(['run', '-E', proxy.url, '--', 'sh', '-c', 'echo started; exec sleep 1000']);
  const printed = collect(started);
  await waitFor('the program', () => printed.stdout === 'started\n');
  proxy.interrupt();
  const { code } = await started.outcome;
  expect(code).toBe(125);
  expect(printed.stderr).toMatch(
    /lost the server: .*; the program may still run until the server ends its session: 'exec-server attach -E ws:\/\/127\.0\.0\.1:\d+ \S+' attaches to it\n$/,
  );
});

test.each([
  ['run', [], 'the server ends it, at the latest with its session'],
  ['run -d', ['-d'], "it may still run: 'exec-server ps -E ws://127.0.0.1:PORT' lists programs"],
])('%s ends a program whose start was answered to a lost connection', async (_command, flags, state) => {
  const proxy = await MessageProxy.open(server, ({ connection, direction, text }) =>
    connection === 0 && direction === 'toClient' && text.includes('"sandboxType"') ? 'swallow' : 'pass',
  );
  onTestFinished(() => proxy.close());
  const name = `unconfirmed${flags.length}`;
  const command = ['run', '-E', proxy.url, ...flags, '--name', name, '--', 'sleep', '1000'];
  const { code, stderr } = await user.run(command);
  expect(code).toBe(125);
  expect(stderr.replace(/:\d+/, ':PORT')).toContain(`; if the program was started, ${state}\n`);
  const { stdout } = await user.run(['ps', '--json', '-E', server]);
  const states = JSON.parse(stdout).flatMap((found: { name: string; state: string }) =>
    found.name === name ? [found.state] : [],
  );
  expect(states).not.toContain('running');
});

test('--timeout ends with 124 although the server no longer answers', async () => {
  const proxy = await MessageProxy.open(server, ({ direction, text }) =>
    direction === 'toServer' && text.includes('"process/wait"') ? 'drop' : 'pass',
  );
  onTestFinished(() => proxy.close());
  const command = ['run', '-E', proxy.url, '--timeout', '200ms', '--', 'sleep', '1000'];
  expect(await user.run(command)).toMatchObject({
    code: 124,
    stderr: 'exec-server: the program was ended: it ran longer than 200ms (--timeout)\n',
  });
});

test.skipIf(!HAS_TMUX)('~. twice leaves a server that does not answer, and says only that', async () => {
  const proxy = await MessageProxy.open(server, ({ direction, text }) =>
    direction === 'toServer' && text.includes('"process/setLifetime"') ? 'drop' : 'pass',
  );
  onTestFinished(() => proxy.close());
  const tmux = new TmuxTerminal(user.workspace.path, { ...user.env, HOME: user.workspace.path });
  onTestFinished(() => tmux.close());
  tmux.line(`${process.execPath} ${CLI} run -E ${proxy.url} -- sh -c 'echo up-$((1+1)); exec sleep 1000'`);
  await tmux.shows('up-2');
  tmux.type('~.');
  await tmux.shows('the server does not answer; ~. again gives up');
  tmux.type('~.');
  await tmux.shows(/detached; the connection is lost, so the program may still run/);
  tmux.line('echo code $?');
  await tmux.shows('code 125');
  expect(tmux.screen).not.toContain('cannot leave');
});

test.skipIf(!HAS_TMUX)('a shell whose session the server has forgotten has its keyboard again', async () => {
  const proxy = await proxyTo(forgetful);
  const witness = user.start(['run', '-E', proxy.url, '--', 'sh', '-c', 'echo $$; exec sleep 1000']);
  const printed = collect(witness);
  await waitFor('the pid', () => printed.stdout.includes('\n'));
  const tmux = new TmuxTerminal(user.workspace.path, { ...user.env, HOME: user.workspace.path });
  onTestFinished(() => tmux.close());
  tmux.line(`${process.execPath} ${CLI} shell -E ${proxy.url}`);
  await tmux.shows(/[$#]$/);
  tmux.line('echo started-$((40+2))');
  await tmux.shows('started-42');
  proxy.interrupt();
  await tmux.shows('reconnecting…');
  // Its session has expired by then, too.
  await waitFor('the end of a session', () => !isAlive(Number(printed.stdout)));
  tmux.resize(90, 20);
  proxy.restore();
  // Keys that are typed earlier would belong to the old session.
  await waitFor('the new session', async () => {
    const { stdout } = await user.run(['ps', '--json', '-E', forgetful]);
    return JSON.parse(stdout).some(({ attached }: { attached: unknown[] }) => attached.length === 1);
  });
  tmux.line('stty size; echo back-$((40+3))');
  await tmux.shows(/20 90\nback-43/);
  tmux.keys('Enter');
  tmux.type('~.');
  await tmux.shows(/detached; the program keeps running/);
  await witness.outcome;
});

test('a signal ends attach while it opens another session', async () => {
  const { stdout: ref } = await user.run([
    'run',
    '-E',
    small,
    '-d',
    '--',
    'sh',
    '-c',
    'echo on; exec sleep 1000',
  ]);
  let stalls = false;
  // The other server does not know the session, and does not answer when a new one is opened.
  const other = await MessageProxy.open(server, ({ direction, text }) => {
    if (direction === 'toClient' || JSON.parse(text).params.resumeSessionId !== null) return 'pass';
    stalls = true;
    return 'drop';
  });
  const proxy = await ReplaceableTarget.open(Number(new URL(small).port));
  onTestFinished(async () => {
    await proxy.close();
    await other.close();
  });
  const child = spawn(process.execPath, [CLI, 'attach', '-E', `ws://127.0.0.1:${proxy.port}`, ref.trim()], {
    env: { PATH: process.env.PATH, HOME: user.workspace.path, ...user.env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const printed = collect({ child });
  const ended = once(child, 'close');
  await waitFor('the output', () => printed.stdout === 'on\n');
  proxy.target = Number(new URL(other.url).port);
  proxy.cut();
  await waitFor('the second session', () => stalls);
  child.kill('SIGTERM');
  const [code] = await ended;
  expect([code, printed.stderr]).toEqual([
    143,
    expect.stringMatching(
      /interrupted by SIGTERM while connecting again; the program should keep running: 'exec-server attach /,
    ),
  ]);
});

test('attach comes back to a program whose session the server has forgotten', async () => {
  const proxy = await proxyTo(forgetful);
  const file = join(user.workspace.path, 'attach-continue');
  const { stdout: ref } = await user.run(['run', '-E', forgetful, '-d', '--', 'sh', '-c', COUNT(file)]);
  // Without stdin: input that is still being copied when the session is lost is not repeated.
  const child = spawn(process.execPath, [CLI, 'attach', '-E', proxy.url, ref.trim()], {
    env: { PATH: process.env.PATH, HOME: user.workspace.path, ...user.env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const printed = collect({ child });
  const ended = once(child, 'close');
  await waitFor('the first half', () => printed.stdout.includes('\n1000\n'));
  proxy.interrupt();
  await waitFor('the note', () => printed.stderr.includes('reconnecting'));
  user.workspace.file('attach-continue', '');
  proxy.restore();
  const [code] = await ended;
  expect({ code, stderr: printed.stderr }).toEqual({
    code: 5,
    stderr: expect.stringMatching(/^exec-server: reconnecting… .*\n$/),
  });
  expect(printed.stdout).toBe(`${Array.from({ length: 3000 }, (_, index) => index + 1).join('\n')}\n`);
});
