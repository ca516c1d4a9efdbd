import { execFile, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { processState } from '../support/machine.ts';
import { CommandUser, isAlive } from '../support/private-server.ts';
import { waitFor } from '../support/wait-for.ts';
import { CLI, type CliRun } from '../unit/cli/run-cli.ts';

const user = new CommandUser();
/** What the private server records. */
const audit = join(user.workspace.path, 'audit.jsonl');
beforeAll(async () => {
  const settings = join(user.workspace.path, '.config/exec-server');
  mkdirSync(settings, { recursive: true });
  writeFileSync(join(settings, 'private.toml'), `auditLog = ${JSON.stringify(audit)}\n`);
  await user.run(['ps'], { OF_THE_SERVER: 'inherited' });
});
afterAll(() => user.close());

const at = (name: string) => join(user.workspace.path, name);
const run = (...args: string[]) => user.run(['run', ...args]);
const sh = (script: string) => ['--', 'sh', '-c', script];

/** Waits until a file has content, and returns it. */
async function content(name: string): Promise<string> {
  const read = () => (existsSync(at(name)) ? readFileSync(at(name), 'utf8').trim() : '');
  return waitFor(name, read);
}

/** Waits until the command has printed a text to stdout. */
async function printed({ child }: CliRun, text: string): Promise<void> {
  let all = '';
  while (!all.includes(text)) all += String((await once(child.stdout, 'data'))[0]);
}

describe('an argument', () => {
  /** Runs `exec-server run`, with what printf writes as the last argument. Node itself passes only UTF-8. */
  const withBytes = (flags: string, format: string) =>
    promisify(execFile)(
      'sh',
      ['-c', `exec "$0" "$1" run ${flags} -- printf %s x "$(printf '${format}')"`, process.execPath, CLI],
      { env: { ...user.env, PATH: process.env.PATH, HOME: user.workspace.path } },
    ).then(
      ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
      ({ code, stdout, stderr }) => ({ code, stdout, stderr }),
    );

  test('that is not UTF-8 is refused', async () => {
    const refusal = 'argument 7 is not UTF-8, so it cannot be passed on as it is: caf\\xe9';
    const plain = await withBytes('-n', 'caf\\351');
    expect(plain).toMatchObject({ code: 2, stdout: '' });
    expect(plain.stderr).toMatch(
      new RegExp(`^exec-server run: ${refusal.replaceAll('\\', '\\\\')}; write it`),
    );
    const json = await withBytes('--json', 'caf\\351');
    expect(JSON.parse(json.stderr)).toMatchObject({ code: 'usage', message: refusal });
  });

  test('that has a replacement character reaches the program', async () => {
    expect(await withBytes('-n', '\\357\\277\\275')).toEqual({ code: 0, stdout: 'x\uFFFD', stderr: '' });
  });
});

describe('the exit code', () => {
  test.each([
    ['of a program', ['true'], 0],
    ['of a program that fails', sh('exit 3'), 3],
    ['of a program that a signal ended', sh('kill -TERM $$'), 143],
    ['of a program that is as a code of ours', sh('exit 125'), 125],
  ])('%s is that of the program', async (_name, args, code) => {
    expect(await run(...args)).toEqual({ code, signal: null, stdout: '', stderr: '' });
  });

  test.each([
    [
      ['no-such-program', 'x'],
      127,
      /^exec-server: program not found on PATH: no-such-program; install it there/,
    ],
    [['ls -l'], 127, /; for a shell line write: exec-server run -- sh -c 'ls -l'\n$/],
    [["echo 'a'"], 127, /exec-server run -- sh -c 'echo '\\''a'\\'''\n$/],
    [['/etc/passwd'], 126, /\/etc\/passwd.*; make it an executable file/],
    [
      ['-w', '/no/such/folder', 'true'],
      125,
      /\/no\/such\/folder.*; create the directory, or choose another one with -w\n$/,
    ],
    [
      ['--timeout', '200ms', 'sleep', '100'],
      124,
      /^exec-server: the program was ended: it ran longer than 200ms \(--timeout\)\n$/,
    ],
    [['-E', 'ws://127.0.0.1:1', 'true'], 125, /^exec-server: cannot reach/],
    [[], 2, /the program is missing/],
    [['-t', 'true'], 2, /-t needs a terminal, and stdin and stdout are not one; leave -t out/],
    [['--timeout', '10', 'true'], 2, /'10' is not a time; write it like 500ms, 90s/],
    [['--name', 'a b', 'true'], 2, /is not a name/],
    [['--name', '-x', 'true'], 2, /no hyphen in front/],
    [['--sandbox', 'strict', 'true'], 2, /--sandbox 'strict' is not read-only or workspace-write/],
    [['--nam', 'x', 'true'], 2, /unknown flag '--nam'; did you mean '--name'\?/],
  ])('of run %j is %i', async (args, code, stderr) => {
    expect(await run(...args)).toEqual({
      code,
      signal: null,
      stdout: '',
      stderr: expect.stringMatching(stderr),
    });
  });

  test('of a failure is in JSON when asked for', async () => {
    const { code, stderr } = await run('--json', 'no-such-program');
    expect(code).toBe(127);
    expect(JSON.parse(stderr)).toMatchObject({
      code: 'programNotFound',
      hint: 'install it there, or write its path',
    });
  });
});

test('flags behind the program are its own', async () => {
  expect(await run('echo', '-d', '--json', '--', '-h')).toMatchObject({
    code: 0,
    stdout: '-d --json -- -h\n',
  });
});

test('stdout and stderr stay apart, and binary output is unchanged', async () => {
  const { child, outcome } = user.start(['run', ...sh('printf "\\377\\000\\n"; echo err >&2')]);
  const chunks: Buffer[] = [];
  child.stdout
    .removeAllListeners('data')
    .setEncoding('latin1')
    .on('data', (text) => chunks.push(Buffer.from(text, 'latin1')));
  expect(await outcome).toMatchObject({ code: 0, stderr: 'err\n' });
  expect(Buffer.concat(chunks)).toEqual(Buffer.from([0xff, 0, 0x0a]));
});

test('the program runs in the directory of the command, with the variables that are given', async () => {
  const vars = user.workspace.file('vars', 'FROM_FILE=1\nBOTH=file\n');
  const args = ['--env-file', vars, '-e', 'BOTH=flag', '-e', 'FROM_HERE'];
  const { stdout } = await user.run(['run', ...args, ...sh('pwd; echo $FROM_FILE $BOTH $FROM_HERE')], {
    FROM_HERE: 'here',
  });
  expect(stdout).toBe(`${user.workspace.path}\n1 flag here\n`);
  expect(await run('-w', '/usr', 'pwd')).toMatchObject({ stdout: '/usr\n' });
});

describe('the variables of the command', () => {
  const VARIABLES = { GIVEN: 'two words', EXEC_SERVER_TOKEN: 'secret', LONG: 'x'.repeat(100_000) };

  test('are those of a program of the private server, except for its own', async () => {
    const { stdout } = await user.run(['run', '-e', 'ADDED=1', '--', 'env'], VARIABLES);
    const lines = stdout.split('\n');
    expect(lines).toEqual(expect.arrayContaining(['GIVEN=two words', 'ADDED=1', `LONG=${VARIABLES.LONG}`]));
    expect(lines.filter((line) => /^(?:EXEC_SERVER_|OF_THE_SERVER)/.test(line))).toEqual([]);
    expect((await run('env')).stdout).not.toContain('GIVEN');
  });

  test('are not sent to another environment', async () => {
    const url = `unix://${join(user.folder, 'server.sock')}`;
    const { stdout } = await user.run(['run', '-E', url, '-e', 'ADDED=1', '--', 'env'], VARIABLES);
    expect(stdout.split('\n')).toEqual(expect.arrayContaining(['OF_THE_SERVER=inherited', 'ADDED=1']));
    expect(stdout).not.toContain('GIVEN');
  });

  test('have no values in a list, recording or audit log', async () => {
    await user.run(['run', '--record', '--name', 'quiet', '-d', '--', 'true'], { PASSWORD: 'unwritten' });
    expect(await user.run(['wait', 'quiet'])).toMatchObject({ code: 0 });
    const texts = [await user.run(['ps', '-a', '--json']), await user.run(['export', 'quiet'])];
    expect(texts.map(({ stdout }) => stdout)).toEqual([
      expect.stringContaining('"quiet"'),
      expect.stringContaining('"version":3'),
    ]);
    const audited = readFileSync(audit, 'utf8');
    expect(audited).toContain('"PASSWORD"');
    expect(texts.map(({ stdout }) => stdout).join() + audited).not.toContain('unwritten');
  });
});

test('a sandbox confines the program', async () => {
  const file = at('outside');
  const confined = await run('--sandbox', 'read-only', ...sh(`echo x > ${file}`));
  expect(confined.code).not.toBe(0);
  expect(existsSync(file)).toBe(false);
  const policy = user.workspace.file('policy.json', '{"type":"workspaceWrite"}');
  expect(await run('--sandbox', policy, '-w', user.workspace.path, ...sh(`echo x > ${file}`))).toMatchObject({
    code: 0,
  });
  expect(existsSync(file)).toBe(true);
});

describe('stdin', () => {
  test('is streamed to its end, whatever its size', async () => {
    const { child, outcome } = user.start(['run', 'sha256sum']);
    const bytes = Buffer.alloc(8 * 1024 * 1024, 'exec-server ');
    child.stdin.end(bytes);
    const sum = createHash('sha256').update(bytes).digest('hex');
    expect(await outcome).toMatchObject({ code: 0, stdout: `${sum}  -\n` });
  });

  test('that the program does not read is no error', async () => {
    const { child, outcome } = user.start(['run', 'true']);
    child.stdin.on('error', () => {});
    child.stdin.write(Buffer.alloc(4 * 1024 * 1024));
    expect(await outcome).toMatchObject({ code: 0, stderr: '' });
  });

  test('that stays open does not keep the command running', async () => {
    const { outcome } = user.start(['run', 'echo', 'done']);
    expect(await outcome).toMatchObject({ code: 0, stdout: 'done\n' });
  });

  test.each([
    [
      'of a loop over a file is left to the loop with -n',
      'while read -r line; do R -n cat; echo "$line"; done < list',
      'a\nb\nc\n',
    ],
    [
      'of a loop over a pipe is left to the loop with -n',
      'cat list | while read -r line; do R -n cat; echo "$line"; done',
      'a\nb\nc\n',
    ],
    ['of a loop is passed on', 'while read -r line; do R cat; echo "$line"; done < list', 'b\nc\na\n'],
    ['that a wrapper has too is passed on', 'echo a | timeout 60 R cat; { R cat; } < other', 'a\no\n'],
    ['of a shell line is passed on', `sh -c 'R cat < other'`, 'o\n'],
    [
      'that is redirected for the command is passed on',
      'while read -r line; do R cat < other; done < list',
      'o\no\no\n',
    ],
    [
      'that is piped to the command is passed on',
      'while read -r line; do echo "$line" | R tr a-c A-C; done < list',
      'A\nB\nC\n',
    ],
  ])('%s', async (_name, text, stdout) => {
    writeFileSync(at('list'), 'a\nb\nc\n');
    writeFileSync(at('other'), 'o\n');
    expect(await shell(text)).toEqual({ code: 0, signal: null, stdout, stderr: '' });
  });
});

test.each([
  [
    'ends a program',
    `R -n sh -c 'echo x; exec sleep 1000' > /dev/full`,
    /no space left on device.*; the program has exited with 141\n$/,
  ],
  [
    'ends a program that ignores SIGPIPE',
    `R -n sh -c 'trap "" PIPE; echo x; sleep 1000' > /dev/full`,
    /no space left on device.*; the program is ended\n$/,
  ],
  [
    'is no success',
    'R -n --json true > /dev/full',
    /^\{"code":"storage","message":"cannot write to stdout: no space left on device/,
  ],
])('output that cannot be written %s', async (_name, text, stderr) => {
  expect(await shell(text)).toMatchObject({ code: 125, stdout: '', stderr: expect.stringMatching(stderr) });
  expect(JSON.parse((await user.run(['ps', '--json'])).stdout)).toEqual([]);
});

test('flags that Node has too are those of the command and of the program', async () => {
  const program = (...args: readonly string[]) =>
    promisify(execFile)(CLI, ['run', ...args], {
      cwd: user.workspace.path,
      env: { PATH: process.env.PATH, HOME: user.workspace.path, ...user.env },
    });
  writeFileSync(at('variables'), 'GREETING=hello\n');
  const greeting = await program('-n', '--env-file', 'variables', 'sh', '-c', 'echo $GREETING');
  expect(greeting.stdout).toBe('hello\n');
  expect((await program('-n', 'echo', '--env-file', 'missing')).stdout).toBe('--env-file missing\n');
  await expect(program('--env-file', 'missing', 'true')).rejects.toMatchObject({
    code: 125,
    stderr: expect.stringMatching(/^exec-server: .*missing: no such file or directory; check the path\n$/),
  });
});

test('ends a program when the reader of stderr is gone', async () => {
  const loop = `R -n sh -c 'while :; do echo e >&2; done' 2>&1 | head -1; echo "\${PIPESTATUS[0]}"`;
  expect(await shell(loop)).toMatchObject({ code: 0, stdout: 'e\n141\n' });
});

test('-i and -n exclude each other', async () => {
  expect(await user.run(['run', '-i', '-n', 'cat'])).toMatchObject({ code: 2, stdout: '' });
});

/** Runs a shell script in which `R` stands for `exec-server run`. */
async function shell(text: string) {
  const program = `${process.execPath} ${CLI} run`;
  const child = spawn('bash', ['-c', `set -o pipefail\n${text.replaceAll(/\bR\b/g, program)}`], {
    cwd: user.workspace.path,
    env: { PATH: process.env.PATH, HOME: user.workspace.path, ...user.env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const outputs = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', (chunk) => {
      outputs[name] += chunk;
    });
  }
  const [code, signal] = await once(child, 'close');
  return { code, signal, ...outputs };
}

describe('a reader of stdout', () => {
  test('that is slow stops the program, and gets everything', async () => {
    const size = 12 * 1024 * 1024;
    const { child, outcome } = user.start([
      'run',
      ...sh(`echo $$ > slow.pid; exec head -c ${size} /dev/zero`),
    ]);
    child.stdout.removeAllListeners('data').pause();
    const pid = Number(await content('slow.pid'));
    let asleep = 0;
    await waitFor('the program to be blocked', () => {
      asleep = processState(pid) === 'S' ? asleep + 1 : 0;
      return asleep > 30;
    });
    let bytes = 0;
    child.stdout.on('data', (chunk) => {
      bytes += Buffer.byteLength(chunk, 'latin1');
    });
    child.stdout.resume();
    expect(await outcome).toMatchObject({ code: 0, stderr: '' });
    expect(bytes).toBe(size);
  });

  test('that ends early ends the program, without a message', async () => {
    expect(await shell("R -- sh -c 'echo $$ > pipe.pid; exec yes' | head -n 1")).toEqual({
      code: 141,
      signal: null,
      stdout: 'y\n',
      stderr: '',
    });
    const pid = Number(await content('pipe.pid'));
    await waitFor('the program to end', () => !isAlive(pid));
  });
});

test.each([
  ['sleeps', 'head -c 600000 /dev/zero; echo $$ > sleeps.pid; exec sleep 1000'],
  ['waits-for-its-reader', 'echo $$ > waits-for-its-reader.pid; exec yes'],
])('SIGTERM ends a command whose reader has stopped, and the program that %s', async (name, script) => {
  const { child } = user.start(['run', '-n', ...sh(script)]);
  child.stdout.removeAllListeners('data').pause();
  const pid = Number(await content(`${name}.pid`));
  let asleep = 0;
  await waitFor('the program to wait', () => {
    asleep = processState(pid) === 'S' ? asleep + 1 : 0;
    return asleep > 30;
  });
  child.kill('SIGTERM');
  expect(await once(child, 'exit')).toEqual([143, null]);
});

describe('signals', () => {
  test('SIGINT is passed on, and a second one terminates the program and its descendants', async () => {
    const started = user.start([
      'run',
      ...sh("trap 'echo got INT' INT; sleep 1000 & echo $! > child.pid; echo ready; while :; do wait; done"),
    ]);
    await printed(started, 'ready');
    const interrupted = printed(started, 'got INT');
    started.child.kill('SIGINT');
    await interrupted;
    const first = performance.now();
    // The same signal within half a second is one that npm has sent again.
    await waitFor('half a second to pass', () => performance.now() - first > 600);
    started.child.kill('SIGINT');
    expect(await started.outcome).toMatchObject({ code: 137, signal: null });
    const pid = Number(await content('child.pid'));
    await waitFor('the descendant to end', () => !isAlive(pid));
  });

  test.each(['SIGTERM', 'SIGHUP', 'SIGQUIT'] as const)('%s is passed on', async (signal) => {
    const started = user.start([
      'run',
      ...sh(`trap 'exit 7' ${signal.slice(3)}; echo ready; while :; do sleep 0.02; done`),
    ]);
    await printed(started, 'ready');
    started.child.kill(signal);
    expect(await started.outcome).toMatchObject({ code: 7 });
  });
});

test('a program ends when the command is killed', async () => {
  const quick = new CommandUser();
  try {
    const config = join(quick.workspace.path, '.config/exec-server');
    mkdirSync(config, { recursive: true });
    writeFileSync(join(config, 'private.toml'), 'detachedSessionTtlMs = "200ms"\n');
    const started = quick.start(['run', ...sh('echo $$; exec sleep 1000')]);
    const pid = Number((await once(started.child.stdout, 'data'))[0]);
    started.child.kill('SIGKILL');
    await waitFor('the program to end', () => !isAlive(pid));
  } finally {
    await quick.close();
  }
});

test('-d prints the reference and leaves the program running; attach shows it and ends with its exit code', async () => {
  const { code, stdout, stderr } = await run(
    '-d',
    '--name',
    'job',
    ...sh('echo one; while [ ! -e go ]; do sleep 0.02; done; echo two; exit 9'),
  );
  expect([code, stderr]).toEqual([0, '']);
  const ref = stdout.trim();
  expect(ref).toMatch(/^\S+$/);
  const watching = user.start(['attach', '--read-only', ref]);
  await printed(watching, 'one');
  writeFileSync(at('go'), '');
  expect(await watching.outcome).toMatchObject({ code: 9, stdout: 'one\ntwo\n', stderr: '' });
  // It has ended, and its output is still there.
  expect(await user.run(['attach', 'job'])).toMatchObject({ code: 9, stdout: 'one\ntwo\n' });
  const json = await user.run(['attach', '--json', '--read-only', 'job']);
  const events = json.stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(json.code).toBe(9);
  expect(events[0]).toEqual({ type: 'attached', ref, name: 'job', role: 'viewer' });
  expect(events.flatMap(({ data }) => data ?? []).join('')).toBe('one\ntwo\n');
  expect(events.at(-1)).toMatchObject({ type: 'exit', exitCode: 9 });
});

test('attach passes input on to a program that was started with -d -i', async () => {
  await run('-d', '-i', '--name', 'upper', 'tr', 'a-z', 'A-Z');
  const attached = user.start(['attach', 'upper']);
  attached.child.stdin.end('hello\n');
  expect(await attached.outcome).toMatchObject({ code: 0, stdout: 'HELLO\n', stderr: '' });
});

test.each([
  [['attach'], 2, /the program is missing; 'exec-server ps' lists them/],
  [
    ['attach', 'nothing'],
    125,
    /^exec-server: no process has the reference or name 'nothing'; 'exec-server ps -a' lists them\n$/,
  ],
  [['attach', 'x', '--read-only', '--take-over'], 2, /exclude each other/],
  [['shell'], 2, /a shell needs a terminal/],
])('%j is refused', async (args, code, stderr) => {
  expect(await user.run(args)).toMatchObject({ code, stdout: '', stderr: expect.stringMatching(stderr) });
});

test('--json prints the limit that ended a program as an object', async () => {
  const { code, stdout, stderr } = await run('--json', '--timeout', '200ms', 'sleep', '100');
  const [, exit] = stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect([code, exit]).toEqual([
    124,
    { type: 'exit', exitCode: 137, reason: 'timeout', sandboxDenied: false },
  ]);
  expect(JSON.parse(stderr)).toEqual({
    ...{ code: 'timeout', hint: null },
    message: 'the program was ended: it ran longer than 200ms (--timeout)',
  });
});

test('--json prints one object per event', async () => {
  const { code, stdout } = await run('--json', ...sh('echo out; echo err >&2; exit 4'));
  const events = stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(code).toBe(4);
  expect(events[0]).toEqual({ type: 'started', ref: expect.any(String), name: null });
  expect(
    events
      .filter(({ type }) => type === 'output')
      .map(({ stream, data }) => [stream, data])
      .sort(),
  ).toEqual([
    ['stderr', 'err\n'],
    ['stdout', 'out\n'],
  ]);
  expect(events.at(-1)).toEqual({ type: 'exit', exitCode: 4, reason: null, sandboxDenied: false });
});
