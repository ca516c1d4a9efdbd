import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { collect } from '../support/collect.ts';
import { CommandEnvironments, LOCAL, SECURE, SSH, TRANSPORTS } from '../support/command-environments.ts';
import { hostTree, subtree } from '../support/host-tree.ts';
import { connectMcp } from '../support/mcp-client.ts';
import { answerOf, startForward } from '../support/port-forward.ts';
import { echoPeer } from '../support/tcp-peers.ts';
import { waitFor } from '../support/wait-for.ts';

// The same commands over each transport, with exit codes. Each command has a file of its own for the private server.

let environments: CommandEnvironments;

beforeAll(async () => {
  environments = await CommandEnvironments.open();
});
afterAll(async () => {
  expect(await environments?.close()).toMatchObject({ code: 0, stderr: '' });
});

const at = (name: string) => environments.at(name);
const treeAt = (path: string) => subtree(hostTree([path]), path);
const lines = (stdout: string) =>
  stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));

describe.each(TRANSPORTS)('over %s', (name) => {
  const run = (command: string, ...args: string[]) => environments.run(name, command, ...args);
  const start = (command: string, ...args: string[]) => environments.start(name, command, ...args);
  /** Starts a program that is left running, and returns its reference. */
  const detached = async (...args: string[]) => {
    const { code, stdout, stderr } = await run('run', '-d', ...args);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    return stdout.trim();
  };
  /** A path for this transport alone. */
  const own = (file: string) => at(`${file}-${name.replaceAll(' ', '-')}`);

  test('programs run, are listed, shown, waited for, recorded and removed', async () => {
    const failing = await run('run', '-n', '--', 'sh', '-c', 'echo out; echo err >&2; exit 3');
    expect(failing).toEqual({ code: 3, signal: null, stdout: 'out\n', stderr: 'err\n' });
    const script = 'echo one; cat; exit 4';
    const ref = await detached('-i', '--name', 'job', '--record', 'sh', '-c', script);
    const listed = await run('ps', '--json');
    expect(JSON.parse(listed.stdout)).toMatchObject([{ ref, name: 'job', state: 'running' }]);
    const follower = start('logs', '-f', '--since-seq', '0', 'job');
    const waiter = start('wait', '--timeout', '10m', 'job');
    const followed = collect(follower);
    await waitFor('the first line', () => followed.stdout === 'one\n');
    const attached = start('attach', 'job');
    attached.child.stdin.end('two\n');
    const text = 'one\ntwo\n';
    expect(await attached.outcome).toMatchObject({ code: 4, stdout: text, stderr: '' });
    expect(await follower.outcome).toMatchObject({ code: 0, stdout: text, stderr: '' });
    expect(await waiter.outcome).toMatchObject({ code: 4, stdout: '', stderr: '' });

    const tail = await run('logs', '--tail', '1', '--timestamps', 'job');
    expect(tail).toMatchObject({ code: 0, stdout: expect.stringMatching(/^\S+Z two\n$/), stderr: '' });
    const recordings = await run('recordings', '--json');
    expect(JSON.parse(recordings.stdout)).toContainEqual(expect.objectContaining({ ref, name: 'job' }));
    const castFile = own('job.cast');
    expect(await run('export', '--v2', '-o', castFile, 'job')).toMatchObject({ code: 0, stderr: '' });
    expect(readFileSync(castFile, 'utf8')).toMatch(/^\{"version":2,/);
    expect(await run('export', '--txt', 'job')).toMatchObject({ code: 0, stdout: text });
    const faster = ['--speed', '100', '--idle-limit', '1ms'];
    const player = await environments.startOnTerminal(name, 'play', ...faster, 'job');
    expect(await environments.user.run(['wait', player])).toMatchObject({ code: 0 });
    expect(await environments.user.run(['logs', player])).toMatchObject({ stdout: 'one\r\ntwo\r\n' });

    expect(await run('rm', 'job')).toMatchObject({ code: 0, stderr: '' });
    const all = await run('ps', '-a', '--all-owners', '--json');
    expect(all).toMatchObject({ code: 0, stdout: expect.not.stringContaining(ref) });
  });

  test('programs get variables, a directory, a time limit and a sandbox', async () => {
    writeFileSync(at('variables'), 'FROM_FILE=two\n');
    const given = ['-e', 'GIVEN=one', '--env-file', 'variables', '-w', '/usr'];
    const program = ['--', 'sh', '-c', 'echo "$GIVEN $FROM_FILE $(pwd)"; exit 3'];
    const { code, stdout, stderr } = await run('run', '--json', ...given, ...program);
    expect({ code, stderr }).toEqual({ code: 3, stderr: '' });
    expect(lines(stdout)).toEqual([
      { type: 'started', ref: expect.any(String), name: null },
      expect.objectContaining({ type: 'output', stream: 'stdout', data: 'one two /usr\n' }),
      { type: 'exit', exitCode: 3, reason: null, sandboxDenied: false },
    ]);
    expect(await run('run', '--timeout', '200ms', 'sleep', '1000')).toMatchObject({
      code: 124,
      stderr: 'exec-server: the program was ended: it ran longer than 200ms (--timeout)\n',
    });
    const inside = own('inside');
    mkdirSync(inside);
    // A program in the sandbox workspace-write may write to /tmp.
    const outside = `/var/tmp/${basename(environments.user.workspace.path)}`;
    onTestFinished(() => rmSync(outside, { force: true }));
    const write = ['-w', inside, '--', 'sh', '-c', `echo x > file; echo y > ${outside}`];
    expect((await run('run', '--sandbox', 'read-only', ...write)).code).toBe(2);
    expect([existsSync(`${inside}/file`), existsSync(outside)]).toEqual([false, false]);
    expect((await run('run', '--sandbox', 'workspace-write', ...write)).code).toBe(2);
    expect([existsSync(`${inside}/file`), existsSync(outside)]).toEqual([true, false]);
  });

  test('programs are killed and signalled', async () => {
    const [killed, signalled] = [await detached('sleep', '1000'), await detached('sleep', '1000')];
    expect(await run('kill', '--json', killed)).toMatchObject({ code: 0, stderr: '' });
    const waited = await run('wait', '--json', killed);
    expect([waited.code, JSON.parse(waited.stdout)]).toMatchObject([137, [{ ref: killed, exitCode: 137 }]]);
    expect(await run('kill', '-s', 'TERM', signalled)).toMatchObject({ code: 0, stderr: '' });
    expect(await run('wait', signalled)).toMatchObject({ code: 143 });
    const running = await detached('sleep', '1000');
    expect(await run('rm', killed, signalled)).toMatchObject({ code: 0, stderr: '' });
    expect(await run('rm', '-f', '--json', running)).toMatchObject({ code: 0, stderr: '' });
  });

  test('attach watches with --read-only, and takes the input over with --take-over', async () => {
    const ref = await detached('-i', 'sh', '-c', 'read a; echo "got $a"; read b; echo "then $b"; exit 6');
    const driver = start('attach', ref);
    const driven = collect(driver);
    driver.child.stdin.write('one\n');
    await waitFor('the first line', () => driven.stdout === 'got one\n');
    const watcher = start('attach', '--read-only', ref);
    const watched = collect(watcher);
    watcher.child.stdin.write('unwanted\n');
    await waitFor('the first line for the watcher', () => watched.stdout === 'got one\n');
    const taker = start('attach', '--take-over', '--json', ref);
    await waitFor('the new driver', () => driven.stderr.includes('another client has taken over'));
    driver.child.stdin.write('unwanted\n');
    taker.child.stdin.write('two\n');
    const ended = { code: 6, stdout: 'got one\nthen two\n' };
    for (const { outcome } of [driver, watcher]) expect(await outcome).toMatchObject(ended);
    const { code, stdout } = await taker.outcome;
    expect([code, lines(stdout).at(-1)]).toMatchObject([6, { type: 'exit', exitCode: 6 }]);
  });

  test('files and trees are copied both ways', async () => {
    writeFileSync(at('file'), name, { mode: 0o600 });
    expect(await run('cp', '-q', '-p', 'file', `:${own('there')}`)).toMatchObject({ code: 0, stderr: '' });
    expect([readFileSync(own('there'), 'utf8'), statSync(own('there')).mode & 0o777]).toEqual([name, 0o600]);
    expect(Math.floor(statSync(own('there')).mtimeMs)).toBe(Math.floor(statSync(at('file')).mtimeMs));
    const { code, stdout } = await run('cp', '--json', `:${own('there')}`, own('back'));
    expect([code, lines(stdout).at(-1)]).toMatchObject([0, { files: 1, failed: [] }]);
    expect(readFileSync(own('back'), 'utf8')).toBe(name);

    const tree = own('tree');
    mkdirSync(join(tree, 'a b/empty'), { recursive: true });
    writeFileSync(join(tree, 'a b/line\nbreak'), name);
    writeFileSync(join(tree, 'run'), '#!/bin/sh\n');
    chmodSync(join(tree, 'run'), 0o755);
    symlinkSync('run', join(tree, 'link'));
    expect(await run('cp', '-r', tree, `:${tree}-there`)).toMatchObject({ code: 0, stderr: '' });
    expect(await run('cp', '-r', `:${tree}-there`, `${tree}-back`)).toMatchObject({ code: 0, stderr: '' });
    for (const copy of ['there', 'back']) expect(treeAt(`${tree}-${copy}`)).toEqual(treeAt(tree));
    expect(readlinkSync(join(`${tree}-back`, 'link'))).toBe('run');
  });

  test('a directory is synchronized both ways', async () => {
    const [source, there, back] = [own('source'), own('synced'), own('again')];
    for (const folder of [join(source, 'sub'), there]) mkdirSync(folder, { recursive: true });
    writeFileSync(join(source, 'sub/new'), name);
    writeFileSync(join(source, 'changed'), 'now');
    writeFileSync(join(there, 'changed'), 'before');
    writeFileSync(join(there, 'extra'), '');
    const before = treeAt(there);
    expect(await run('sync', '--dry-run', '--delete', source, `:${there}`)).toMatchObject({ code: 0 });
    expect(treeAt(there)).toEqual(before);
    expect(await run('sync', '--exclude', 'changed', source, `:${there}`)).toMatchObject({ code: 0 });
    expect(treeAt(there)).toEqual({ ...treeAt(source), ...before });
    expect(await run('sync', '--delete', source, `:${there}`)).toMatchObject({ code: 0 });
    expect(treeAt(there)).toEqual(treeAt(source));
    const watcher = start('sync', '--watch', '--json', `:${there}`, back);
    const watched = collect(watcher);
    await waitFor('the first pass', () => watched.stdout.includes('"type":"pass"'));
    writeFileSync(join(there, 'later'), name);
    await waitFor('the change', () => existsSync(join(back, 'later')));
    watcher.child.kill('SIGINT');
    expect(await watcher.outcome).toMatchObject({ code: 0, stderr: '' });
    expect(treeAt(back)).toEqual(treeAt(there));
  });

  test('a shell opens on a terminal, and ends with its exit code', async () => {
    const shell = await environments.startOnTerminal(name, 'shell', '--name', 'work', '--record');
    const keys = environments.user.start(['attach', shell]);
    keys.child.stdin.write('echo home is $HOME; exit 5\n');
    const home = name === SSH ? environments.machine.user.workspace.path : '/';
    expect(await keys.outcome).toMatchObject({ code: 5, stdout: expect.stringContaining(`home is ${home}`) });
  });

  test('the environment is tested, and serves the tools of mcp', async () => {
    const { code, stdout, stderr } = await run('env', 'test', '--json');
    expect([code, stderr, JSON.parse(stdout)]).toMatchObject([0, '', { source: '-E' }]);
    const { flags, env } = environments.way(name);
    const client = await connectMcp('2025-11-25', {
      args: ['mcp', ...flags, '--sandbox', 'off'],
      cwd: environments.user.workspace.path,
      env: { HOME: environments.user.workspace.path, ...environments.user.env, ...env },
    });
    onTestFinished(() => client.close());
    const { text, isError } = await client.call('exec_command', { cmd: 'echo tools; exit 3', login: false });
    expect([isError, text]).toEqual([false, expect.stringContaining('tools\n')]);
  });
});

test.each([LOCAL, ...TRANSPORTS])('ports are forwarded over %s', async (name) => {
  const peer = await echoPeer();
  const { flags, env } = environments.way(name);
  const echo = "require('net').createServer((socket) => socket.pipe(socket)).listen(0, '127.0.0.1')";
  const listener = await environments.run(name, 'run', '-d', '--', process.execPath, '-e', echo);
  const [one, proxy, all] = await Promise.all([
    startForward(environments.user, [...flags, '--reconnect-timeout', '1m', `0:${peer.port}`], { env }),
    startForward(environments.user, [...flags, '-D', '0'], { env }),
    startForward(environments.user, [...flags, '--auto', '--json'], { env }),
  ]);
  expect(lines(all.stdout())).toMatchObject([{ type: 'listening', ref: listener.stdout.trim() }]);
  expect(await answerOf(one.ports[0]!, name)).toBe(name);
  expect(await answerOf(all.ports[0]!, name)).toBe(name);
  const request = Buffer.from([5, 1, 0, 5, 1, 0, 1, 127, 0, 0, 1, peer.port >> 8, peer.port & 255]);
  const answer = `\x05\0\x05\0\0\x01${'\0'.repeat(6)}${name}`;
  expect(await answerOf(proxy.ports[0]!, Buffer.concat([request, Buffer.from(name)]))).toBe(answer);
  expect(await Promise.all([one, proxy, all].map((forward) => forward.stop()))).toEqual([0, 0, 0]);
  expect(await environments.run(name, 'rm', '-f', listener.stdout.trim())).toMatchObject({ code: 0 });
});

test('a server with tokens knows the owner of a recording', async () => {
  const ran = await environments.run(SECURE, 'run', '--name', 'owned', '--record', 'true');
  expect(ran).toMatchObject({ code: 0 });
  const { stdout } = await environments.run(SECURE, 'recordings', '--json', '--all-owners');
  expect(JSON.parse(stdout)).toContainEqual(expect.objectContaining({ name: 'owned', owner: 'ana' }));
});

test.each([LOCAL, ...TRANSPORTS])('a terminal of this command shows a program over %s', async (name) => {
  const ref = await environments.startOnTerminal(name, 'run', '-t', '--', 'sh', '-c', 'tty && exit 9');
  expect(await environments.user.run(['wait', ref])).toMatchObject({ code: 9 });
  expect((await environments.user.run(['logs', ref])).stdout).toMatch(/^\/dev\/pts\/\d+\r\n/);
});
