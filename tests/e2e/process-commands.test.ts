import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { type ExecProcess, ExecServerClient } from '../../src/client/index.ts';
import { startServer, TcpProxy } from '../../src/testing/index.ts';
import { MessageProxy } from '../support/message-proxy.ts';
import { CommandUser, isAlive } from '../support/private-server.ts';
import { waitFor } from '../support/wait-for.ts';
import { CLI, firstLine } from '../unit/cli/run-cli.ts';

const user = new CommandUser();
let client: ExecServerClient;

beforeAll(async () => {
  // Starts the private server.
  expect(await user.run(['ps'])).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^REF +NAME +STATE/),
  });
  client = await ExecServerClient.connect({ url: `unix://${join(user.folder, 'server.sock')}` });
});
afterAll(async () => {
  await client?.close();
  await user.close();
});

/** Starts a detached program, as `run -d` does. It is removed at the end of the test. */
async function start(
  script: string,
  options: Parameters<ExecServerClient['spawn']>[1] = {},
): Promise<ExecProcess & { readonly ref: string }> {
  const process = await client.spawn(['/bin/sh', '-c', script], { detached: true, ...options });
  onTestFinished(async () => {
    await process.terminate();
    await process.wait();
    await client.processes.forget(process.ref!).catch(() => {});
  });
  return process as ExecProcess & { readonly ref: string };
}

/** Starts a program and waits until it has ended. */
async function ended(script: string, options: Parameters<typeof start>[1] = {}) {
  const process = await start(script, options);
  await process.wait();
  return process;
}

async function list(...args: string[]): Promise<Record<string, unknown>[]> {
  const { stdout } = await user.run(['ps', '--json', ...args]);
  return JSON.parse(stdout);
}

describe('ps', () => {
  test('lists running programs, and with -a also those that have ended', async () => {
    const server = `require('net').createServer().listen(0, '127.0.0.1', () => console.log('ready'))`;
    const web = await start(`exec ${process.execPath} -e "${server}"`, { name: 'web' });
    for await (const line of web) if (line.includes('ready')) break;
    const [done, killed] = [await ended('exit 3', { name: 'done' }), await ended('kill -9 $$')];
    const terminal = await start('cat', { tty: { rows: 30, cols: 100 } });

    const { stdout, code } = await user.run(['ps']);
    expect(code).toBe(0);
    const rows = stdout.trimEnd().split('\n');
    expect(rows).toHaveLength(3);
    expect(rows[1]).toMatch(
      new RegExp(`^${web.ref} +web +running +\\d+s +\\d{4,5} +- +1 +/bin/sh -c 'exec `),
    );
    expect(rows[2]).toMatch(new RegExp(`^${terminal.ref} +- +running +\\d+s +- +100x30 +1 +/bin/sh -c cat$`));

    const all = (await user.run(['ps', '-a'])).stdout;
    expect(all).toMatch(new RegExp(`^${done.ref} +done +exited 3 `, 'm'));
    expect(all).toMatch(new RegExp(`^${killed.ref} +- +exited 137 \\(SIGKILL\\) `, 'm'));
    expect((await list()).map(({ ref }) => ref)).toEqual([web.ref, terminal.ref]);
    expect((await list('-a')).map(({ ref }) => ref)).toEqual([web.ref, done.ref, killed.ref, terminal.ref]);
    expect(await list('--all-owners')).toHaveLength(2);
  });

  test('shows what ended a program, and what it has left behind', async () => {
    const limited = await ended('sleep 60', { limits: { wallMs: 10 } });
    const left = await start('sleep 60 & exit 0');
    await left.wait({ until: 'exited' });
    const { stdout } = await user.run(['ps', '-a']);
    expect(stdout).toMatch(new RegExp(`^${limited.ref} +- +timed out `, 'm'));
    expect(stdout).toMatch(new RegExp(`^${left.ref} +- +exited 0, output open `, 'm'));
  });

  test('escapes what could control the terminal, and fits it', async () => {
    const title = '\x1b]0;owned\x07\u202etxt\n';
    await start(`sleep 60 # ${title}`);
    const { stdout } = await user.run(['ps']);
    expect(stdout).toContain(String.raw`$'sleep 60 # \x1b]0;owned\x07\u202etxt\n'`);
    expect(stdout.trimEnd().split('\n')).toHaveLength(2);

    const onTerminal = async (env: Record<string, string>) => {
      const ps = await client.spawn([process.execPath, CLI, 'ps'], {
        tty: { rows: 24, cols: 70 },
        env: { HOME: user.workspace.path, ...user.env, TERM: 'xterm', ...env },
      });
      let printed = '';
      for await (const text of ps) printed += text;
      await client.processes.forget(ps.ref!);
      return printed;
    };
    const coloured = await onTerminal({});
    expect(coloured).toMatch(/\x1b\[1mREF\x1b\[0m .*\r\n.*\x1b\[32mrunning\x1b\[0m .*…\r\n$/s);
    const plain = await onTerminal({ NO_COLOR: '1' });
    expect(plain).not.toContain('\x1b');
    for (const line of plain.split('\r\n')) expect(line.length).toBeLessThanOrEqual(70);
    expect((await user.run(['ps'], { FORCE_COLOR: '1' })).stdout).toContain('\x1b[32mrunning\x1b[0m');
  });
});

describe('logs', () => {
  test('prints the bytes of each stream to the stream of the same kind', async () => {
    const both = await ended(`printf 'out\\n'; printf 'err\\n' >&2; printf '\\377\\000'`, { name: 'both' });
    const run = user.start(['logs', 'both']);
    const chunks: Buffer[] = [];
    run.child.stdout.setEncoding('latin1').on('data', (data) => chunks.push(Buffer.from(data, 'latin1')));
    const { code, stderr } = await run.outcome;
    expect([code, stderr, Buffer.concat(chunks)]).toEqual([0, 'err\n', Buffer.from('out\n\xff\0', 'latin1')]);
    const lines = (await user.run(['logs', '--json', both.ref])).stdout.trimEnd().split('\n');
    const events = lines.map((line) => JSON.parse(line));
    expect(events.filter(({ stream }) => stream === 'stderr')).toEqual([
      { type: 'output', seq: expect.any(Number), stream: 'stderr', data: 'err\n' },
    ]);
    expect(events.at(-1)).toEqual({
      ...{ type: 'exit', exitCode: 0, reason: null, sandboxDenied: false },
    });
  });

  test('begins with the last lines, or after an event', async () => {
    const { ref } = await ended('seq 1 100; printf unfinished');
    const tail = async (...args: string[]) => (await user.run(['logs', ref, ...args])).stdout;
    expect(await tail('--tail', '3')).toBe('99\n100\nunfinished');
    expect(await tail('-n', '0')).toBe('');
    const all = (await tail('--json')).trimEnd().split('\n');
    const { seq, data } = JSON.parse(all[0]!);
    expect(`${data}${await tail('--since-seq', String(seq))}`).toBe(await tail());
    expect(await user.run(['logs', ref, '--since-seq', '99'])).toMatchObject({
      ...{ code: 125, stdout: '' },
      stderr: expect.stringMatching(
        /--since-seq is 99, but the last event of .* is \d+; .*use its reference/,
      ),
    });
  });

  test('follows a program until it has ended', async () => {
    const program = await start('echo one; read line; echo "got $line"; exit 5', { pipeStdin: true });
    const run = user.start(['logs', '-f', '--tail', '1', program.ref]);
    await waitFor(
      'the first line',
      () => run.child.stdout.readableFlowing !== null && program.attachedClients.length > 1,
    );
    await program.write('two\n');
    expect(await run.outcome).toEqual({ code: 0, signal: null, stdout: 'one\ngot two\n', stderr: '' });
    // Without -f it ends before the program does.
    const running = await start('echo now; cat', { pipeStdin: true });
    await waitFor('its output', () => running.revision > 0);
    expect(await user.run(['logs', running.ref])).toMatchObject({ code: 0, stdout: 'now\n' });
  });

  test('prints when each line was written', async () => {
    const before = Date.now();
    const program = await start('printf "one\\ntw"; read line; echo "o"; echo err >&2; read line', {
      pipeStdin: true,
    });
    await waitFor('the first output', () => program.revision > 0);
    const run = user.start(['logs', '-f', '--timestamps', program.ref]);
    await once(run.child.stdout, 'data');
    const between = Date.now();
    await program.write('x\n');
    await waitFor('all output', () => program.revision > 2);
    await program.write('x\n');
    const { code, stdout, stderr } = await run.outcome;
    expect(code).toBe(0);
    const linesOf = (text: string) =>
      text
        .trimEnd()
        .split('\n')
        .map((line) => line.split(' '));
    const [one, two] = linesOf(stdout);
    expect([one![1], two![1], linesOf(stderr)[0]![1]]).toEqual(['one', 'two', 'err']);
    const times = [one!, two!, linesOf(stderr)[0]!].map(([time]) => Date.parse(time!));
    expect(one![0]).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    // A line has the time of its beginning.
    expect(times[1]).toBe(times[0]);
    expect(times[0]).toBeGreaterThanOrEqual(before);
    expect(times[0]).toBeLessThanOrEqual(between);
    expect(times[2]).toBeGreaterThanOrEqual(between);

    const tail = await user.run(['logs', '--tail', '1', '--timestamps', program.ref]);
    expect(tail.stdout + tail.stderr).toMatch(/^\S+Z (?:two|err)\n$/);
    const json = await user.run(['logs', '--json', '--timestamps', program.ref]);
    expect(JSON.parse(json.stdout.split('\n')[0]!)).toEqual({
      ...{ type: 'output', seq: 1, stream: 'stdout', time: one![0], data: 'one\ntw' },
    });
  });

  test('says where output is missing', async () => {
    const { ref } = await ended('yes 0123456789abcdef | head -c 5000000; echo last');
    const { code, stdout, stderr } = await user.run(['logs', ref]);
    expect(code).toBe(1);
    const [, bytes] =
      /^exec-server: (\d+) bytes of output are lost before this; the next line may lack its beginning\n$/.exec(
        stderr,
      ) ?? [];
    expect(Number(bytes) + stdout.length).toBe(5_000_005);
    expect(await user.run(['logs', ref, '--tail', '2'])).toMatchObject({
      code: 0,
      stdout: '0123456789abcdef\n0123456789alast\n',
      stderr: '',
    });
    const lines = (await user.run(['logs', '--json', ref])).stdout.trimEnd().split('\n');
    expect(lines.map((line) => JSON.parse(line)).filter(({ type }) => type === 'lost')).toMatchObject([
      { bytes: Number(bytes) },
    ]);
  });

  test('waits for a slow reader, and loses nothing', async () => {
    const { ref } = await ended('seq 1 130000');
    const expected = Array.from({ length: 130_000 }, (_, index) => `${index + 1}\n`).join('');
    const { child } = user.workspace.start(['logs', ref], user.env);
    child.stdout.pause();
    const exited = once(child, 'exit');
    // The pipe is full, and most of the output is still at the server.
    await waitFor('a full pipe', () => child.stdout.readableLength > 0);
    expect(child.exitCode).toBeNull();
    const received = createHash('sha256').update(await text(child.stdout.resume()));
    expect(received.digest('hex')).toBe(createHash('sha256').update(expected).digest('hex'));
    expect(await exited).toEqual([0, null]);
  });

  test('ends when its reader has gone', async () => {
    const program = await start('while echo line; do sleep 0.01; done');
    const { child, outcome } = user.start(['logs', '-f', program.ref]);
    await once(child.stdout, 'data');
    child.stdout.destroy();
    expect(await outcome).toMatchObject({ code: 141, stderr: '' });
    expect(program.state.exited).toBe(false);
  });
});

describe('wait', () => {
  test.each<[string, string[], number]>([
    ['the exit code of a program', ['exit 7'], 7],
    ['128 + n after a signal', ['kill -TERM $$'], 143],
    ['0 when all have succeeded', ['true', 'true'], 0],
    ['the first failure in the order of the command line', ['true', 'exit 4', 'exit 5'], 4],
  ])('exits with %s', async (_name, scripts, code) => {
    const processes = await Promise.all(scripts.map((script) => start(script)));
    const outcome = await user.run(['wait', ...processes.map(({ ref }) => ref)]);
    expect(outcome).toEqual({ code, signal: null, stdout: '', stderr: '' });
  });

  test('waits for a program that runs, by name, and prints how it ended', async () => {
    const program = await start('read line; exit 3', { pipeStdin: true, name: 'reader' });
    const { outcome } = user.start(['wait', '--json', 'reader']);
    await program.write('x\n');
    const { code, stdout } = await outcome;
    expect([code, JSON.parse(stdout)]).toEqual([
      3,
      [{ ref: program.ref, name: 'reader', exitCode: 3, reason: null }],
    ]);
  });

  test('exits with 124 after --timeout, and when a limit ended the program', async () => {
    const program = await start('sleep 60', { name: 'slow' });
    expect(await user.run(['wait', '--timeout', '50ms', 'slow'])).toMatchObject({
      ...{ code: 124, stdout: '' },
      stderr:
        "exec-server: slow still ran after --timeout; it keeps running, 'exec-server kill slow' ends it\n",
    });
    expect(program.state.exited).toBe(false);
    const limited = await ended('sleep 60', { limits: { wallMs: 10 } });
    expect(await user.run(['wait', limited.ref])).toMatchObject({
      ...{ code: 124, stderr: `exec-server wait: ${limited.ref}: timed out\n` },
    });
  });
});

describe('kill', () => {
  test('ends a program and everything that it has started', async () => {
    const file = join(user.workspace.path, 'descendant');
    const program = await start(`setsid sleep 60 & echo $! > ${file}; wait`, { name: 'tree' });
    await waitFor('the descendant', () => {
      try {
        return readFileSync(file, 'utf8').endsWith('\n');
      } catch {
        return false;
      }
    });
    expect(await user.run(['kill', '--', 'tree'])).toEqual({ code: 0, signal: null, stdout: '', stderr: '' });
    expect(isAlive(Number(readFileSync(file, 'utf8')))).toBe(false);
    expect((await program.wait()).exitCode).toBe(137);
    const { code, stderr } = await user.run(['kill', 'tree']);
    expect(code).toBe(125);
    expect(stderr).toMatch(
      /^exec-server: tree has ended at \d{4}-.*Z: exited 137 \(SIGKILL\); 'exec-server logs \w+' prints its output, 'exec-server ps -a' lists it\n$/,
    );
  });

  test('only sends a signal', async () => {
    const program = await start(`trap 'echo got; exit 9' USR1; echo ready; while :; do sleep 0.01; done`);
    for await (const line of program) if (line.includes('ready')) break;
    const { code, stdout, stderr } = await user.run(['kill', '--json', '-s', 'USR1', program.ref]);
    expect([code, stderr, JSON.parse(stdout)]).toEqual([0, '', [{ ref: program.ref, name: null }]]);
    expect((await program.wait()).exitCode).toBe(9);
  });

  test.each<[string, (ref: string) => string[], number]>([
    ['first', (ref) => ['-15', ref], 143],
    ['after another flag', (ref) => ['-E', 'local', '-9', ref], 137],
    ['as a name, after the program', (ref) => ['-Elocal', ref, '-PIPE'], 141],
    ['as a name with SIG', (ref) => ['--json', '-SIGTERM', '--', ref], 143],
  ])('takes a signal without -s: %s', async (_, args, exitCode) => {
    const program = await start('exec sleep 60');
    expect(await user.run(['kill', ...args(program.ref)])).toMatchObject({ code: 0, stderr: '' });
    expect((await program.wait()).exitCode).toBe(exitCode);
  });

  test('refuses two signals, and one after -- is a name', async () => {
    const twice = await user.run(['kill', '-9', 'none', '-HUP']);
    expect(twice).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('--signal is given more than once'),
    });
    const name = await user.run(['kill', '--', '-9']);
    expect(name).toMatchObject({ code: 125, stderr: expect.stringContaining("reference or name '-9'") });
  });

  test('does nothing when one of the programs is unknown', async () => {
    const program = await start('sleep 60', { name: 'backend' });
    expect(await user.run(['kill', 'backend', 'bakend'])).toMatchObject({
      ...{ code: 125, stdout: '' },
      stderr:
        "exec-server: no process has the reference or name 'bakend'; did you mean 'backend'? 'exec-server ps -a' lists them\n",
    });
    expect(program.state.exited).toBe(false);
  });
});

describe('rm', () => {
  test('removes programs that have ended, with their output', async () => {
    const [one, two] = [await ended('echo secret', { name: 'one' }), await ended('true')];
    const json = await user.run(['rm', '--json', 'one', two.ref, 'one']);
    expect([json.code, JSON.parse(json.stdout)]).toEqual([
      0,
      [
        { ref: one.ref, name: 'one' },
        { ref: two.ref, name: null },
      ],
    ]);
    expect(await list('-a')).toEqual([]);
    const { code, stderr } = await user.run(['logs', 'one']);
    expect(code).toBe(125);
    expect(stderr).toMatch(
      /^exec-server: process one exited with code 0 and closed at .*; its output was removed at .*; 'exec-server ps -a' lists those that are left\n$/,
    );
  });

  test('refuses a program that runs, unless it is forced', async () => {
    const [running, done] = [await start('sleep 60', { name: 'running' }), await ended('true')];
    expect(await user.run(['rm', done.ref, 'running'])).toMatchObject({
      ...{ code: 125, stdout: '' },
      stderr:
        "exec-server: running has not ended: running; 'exec-server rm -f running' ends and removes it\n",
    });
    expect(await list('-a')).toHaveLength(2);
    expect(await user.run(['rm', '-f', done.ref, 'running'])).toMatchObject({ code: 0, stderr: '' });
    expect(await list('-a')).toEqual([]);
    expect(running.state.exited).toBe(true);
  });
});

test('logs -f and wait report a lost connection, and continue where they were, also in another session', async () => {
  const server = await startServer({ detachedSessionTtlMs: 100 });
  const messages = await MessageProxy.open(server.url);
  const proxy = await TcpProxy.open(messages.url);
  onTestFinished(async () => {
    await proxy.close();
    await messages.close();
    await server.close();
  });
  const other = await ExecServerClient.connect({ url: server.url });
  const program = await other.spawn('echo one; read line; echo "got $line"; exit 5', {
    ...{ detached: true, pipeStdin: true, name: 'job' },
  });
  const [logs, wait] = [
    ['logs', '-f', 'job'],
    ['wait', 'job'],
  ].map((args) => user.start([...args, '-E', proxy.url]));
  await once(logs!.child.stdout, 'data');
  await waitFor('the request of wait', () => messages.log.some(({ text }) => text.includes('process/wait')));
  proxy.interrupt();
  await Promise.all([logs, wait].map((command) => once(command!.child.stderr, 'data')));
  await program.write('two\n');
  proxy.restore();
  const stderr = 'exec-server: reconnecting… (the program should keep running; Ctrl-C ends this command)\n';
  expect(await logs!.outcome).toMatchObject({ code: 0, stdout: 'one\ngot two\n', stderr });
  expect(await wait!.outcome).toMatchObject({ code: 5, stderr });
  await other.close();
});

test.concurrent.each<[string, string[], number, RegExp]>([
  ['an unknown process', ['logs', 'nothing'], 125, /name 'nothing'; 'exec-server ps -a' lists them\n$/],
  ['an unknown process to remove', ['rm', 'a/b'], 125, /no process has the reference or name 'a\/b'/],
  ['an unknown environment', ['ps', '-E', 'nothing'], 2, /unknown environment 'nothing' \(-E\)/],
  ['no server', ['ps', '-E', 'ws://127.0.0.1:1'], 125, /cannot reach ws:\/\/127.0.0.1:1: connection refused/],
])('says what to do about %s', async (_name, args, code, message) => {
  const { stderr, ...outcome } = await user.run(args);
  expect(outcome).toEqual({ code, signal: null, stdout: '' });
  expect(stderr).toMatch(message);
});

test('names the environment in the commands that errors suggest', async () => {
  const server = user.start(['serve']);
  const url = await firstLine(server);
  const on = async (command: string, ...args: string[]) =>
    (await user.run([command, '-E', url, ...args])).stderr;
  const ref = (await user.run(['run', '-E', url, '-d', '--name', 'job', '--', 'sleep', '60'])).stdout.trim();
  for (const command of ['logs', 'wait', 'kill', 'rm', 'attach'])
    expect(await on(command, 'nothing')).toContain(`; 'exec-server ps -a -E ${url}' lists them\n`);
  expect(await on('wait', '--timeout', '1ms', 'job')).toContain(`'exec-server kill -E ${url} job' ends it\n`);
  expect(await on('rm', 'job')).toContain(`'exec-server rm -f -E ${url} job' ends and removes it\n`);
  for (const flags of [[], ['-d']])
    expect(await on('run', ...flags, '--name', 'job', '--', 'true')).toBe(
      `exec-server: the name job is in use by the running process ${ref}; choose another, or end that process with 'exec-server kill -E ${url} ${ref}'\n`,
    );
  expect(await on('kill', 'job')).toBe('');
  expect(await on('kill', 'job')).toContain(`'exec-server ps -a -E ${url}' lists it\n`);
  expect(await on('rm', 'job')).toBe('');
  expect(await on('logs', 'job')).toContain(`'exec-server ps -a -E ${url}' lists those that are left\n`);
  server.child.kill();
  await server.outcome;
});

test('a result that cannot be written is a failure', async () => {
  const { status, stderr } = spawnSync('sh', ['-c', `${process.execPath} ${CLI} ps > /dev/full`], {
    ...{ encoding: 'utf8', env: { ...process.env, HOME: user.workspace.path, ...user.env } },
  });
  expect([status, stderr]).toEqual([
    125,
    expect.stringMatching(/^exec-server: cannot write to stdout: no space left on device/),
  ]);
});

test('prints failures as JSON', async () => {
  const lost = await user.run(['ps', '--json', '-E', 'ws://127.0.0.1:1']);
  expect([lost.code, JSON.parse(lost.stderr)]).toEqual([
    125,
    {
      code: 'connectFailed',
      message: 'cannot reach ws://127.0.0.1:1: connection refused',
      hint: 'check the address and that the server is running',
    },
  ]);
  const { code, stderr } = await user.run(['wait', '--json', 'nothing']);
  expect([code, JSON.parse(stderr)]).toEqual([
    125,
    {
      code: 'notFound',
      message: "no process has the reference or name 'nothing'",
      hint: "'exec-server ps -a' lists them",
    },
  ]);
});
