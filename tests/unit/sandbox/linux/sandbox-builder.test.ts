import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { loadLibc } from '../../../../src/native/libc.ts';
import { NativeSpawner } from '../../../../src/process/spawn/native-spawner.ts';
import { NodeSpawner } from '../../../../src/process/spawn/node-spawner.ts';
import { type SandboxCalls, SpawnError, type SpawnSpec } from '../../../../src/process/spawn/spawner.ts';
import { spawnLaunch, startProgram } from '../../../../src/process/start-program.ts';
import type { SandboxPolicy } from '../../../../src/sandbox/policy/policy.ts';
import { childPids, command, INPUT, openDescriptors, shell } from '../../../support/children.ts';
import { waitFor } from '../../../support/wait-for.ts';
import {
  newSandboxBuilder,
  PROTECTED_NAMES,
  removedAreClosed,
  starter,
  UNRESTRICTED,
  workspacePolicy,
} from './sandboxed-programs.ts';

const spawner = new NativeSpawner(loadLibc());
const builder = newSandboxBuilder(spawner);
const start = starter(spawner, builder);
let folder: string;
let workspace: string;
let policy: SandboxPolicy;
let descriptors: number;

const run = async (spec: SpawnSpec, ...rest: [SandboxPolicy, ('restricted' | 'enabled' | 'proxied')?]) =>
  (await start({ ...spec, cwd: workspace }, ...rest)).finish();
const python = (script: string) => command(['/usr/bin/python3', '-c', script]);

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sandbox-'));
  workspace = folder;
  await run(shell('true'), workspacePolicy(folder));
});

beforeEach(() => {
  workspace = mkdtempSync(join(folder, 'ws-'));
  policy = workspacePolicy(workspace);
  descriptors = openDescriptors();
});

afterEach(async () => {
  await removedAreClosed();
  expect(openDescriptors()).toBe(descriptors);
});

afterAll(async () => {
  await spawner.close();
  rmSync(folder, { recursive: true });
  expect(childPids()).toEqual([]);
});

describe('a sandboxed program', () => {
  test('writes only to writable paths', async () => {
    const outside = join(folder, 'outside');
    const { stdout, stderr, status, denied } = await run(
      shell(`echo in > file; cat file; echo out > ${outside}`),
      policy,
    );
    expect({ stdout, status, denied }).toEqual({
      stdout: 'in\n',
      status: { code: 2, signal: null },
      denied: true,
    });
    expect(stderr).toContain('Read-only file system');
    expect(readFileSync(join(workspace, 'file'), 'utf8')).toBe('in\n');
    expect(readdirSync(folder)).not.toContain('outside');
  });

  test('gets exactly the given environment, arguments and descriptors', async () => {
    const env = { A: 'b c', '': 'nameless', 'K=X': 'v', Ü: 'ä', LD_PRELOAD: '/no/such.so' };
    const listed = await run({ ...command(['/bin/cat', '/proc/self/environ']), env }, policy);
    expect(listed.stdout.split('\0')).toEqual([
      'A=b c',
      '=nameless',
      'K=X=v',
      'Ü=ä',
      'LD_PRELOAD=/no/such.so',
      '',
    ]);
    const named = await run({ ...command(['/bin/cat']), argv: ['zero', '/proc/self/cmdline'] }, policy);
    expect(named.stdout).toBe('zero\0/proc/self/cmdline\0');
    const { stdout } = await run(command(['/bin/ls', '-l', '/proc/self/fd']), policy);
    const links = stdout.match(/\d+ -> \S+/g) ?? [];
    expect(links.map((link) => link.replace(/:.*|\d+\/fd$/, ''))).toEqual([
      '0 -> /dev/null',
      '1 -> pipe',
      '2 -> pipe',
      '3 -> /proc/',
    ]);
  });

  test('reads its stdin to the end', async () => {
    const program = await start({ ...shell('cat; echo end', INPUT), cwd: workspace }, policy);
    program.child.stdin?.write(Buffer.from('one '), () => {});
    program.child.stdin?.write(Buffer.from('two '), () => {});
    program.child.stdin?.end();
    expect(await program.finish()).toMatchObject({ stdout: 'one two end\n', status: { code: 0 } });
  });

  test('runs in its working directory, also by a relative path and through a link', async () => {
    writeFileSync(join(workspace, 'tool'), '#!/bin/sh\npwd -P\n', { mode: 0o755 });
    expect((await run(command(['./tool']), policy)).stdout).toBe(`${workspace}\n`);
    symlinkSync(workspace, join(folder, 'link'));
    const program = await start({ ...command(['./tool']), cwd: join(folder, 'link') }, policy);
    expect((await program.finish()).stdout).toBe(`${workspace}\n`);
  });

  test('is looked up on its own PATH', async () => {
    mkdirSync(join(workspace, 'bin'));
    writeFileSync(join(workspace, 'bin', 'tool'), '#!/bin/sh\necho found\n', { mode: 0o755 });
    const spec = { ...command(['tool']), env: { PATH: `${workspace}/bin:/bin` } };
    expect((await run(spec, policy)).stdout).toBe('found\n');
  });

  test('has its own process namespace and no capabilities', async () => {
    const { stdout } = await run(
      shell('ls -d /proc/[0-9]*; grep -E "Cap(Eff|Bnd|Prm)|NoNew|Seccomp:" /proc/self/status'),
      policy,
    );
    expect(stdout.match(/^\/proc\/\d+$/gm)).toEqual(['/proc/1', '/proc/2']);
    expect(stdout.match(/^Cap\w+:\t0{16}$/gm)).toHaveLength(3);
    expect(stdout).toContain('NoNewPrivs:\t1\nSeccomp:\t2\n');
  });

  test('cannot change kernel settings', async () => {
    const { stderr } = await run(
      shell('cat /proc/sys/kernel/core_pattern > /proc/sys/kernel/core_pattern'),
      policy,
    );
    expect(stderr).toMatch(/Read-only file system|Permission denied/);
  });

  test.each([0, 1, 2, 101, 126, 127, 255])('exits with code %i', async (code) => {
    expect(await run(shell(`exit ${code}`), policy)).toMatchObject({ status: { code, signal: null } });
  });

  test.each([
    ['SIGKILL', 9],
    ['SIGTERM', 15],
    ['SIGSEGV', 11],
    ['SIGSYS', 31],
  ])('ends with signal %s', async (_, signal) => {
    const { status, denied } = await run(shell(`kill -${signal} $$`), policy);
    expect(status).toEqual({ code: 128 + signal, signal: null });
    expect(denied).toBe(signal === 31);
  });

  test('ends its background processes', async () => {
    const left = join(workspace, 'left');
    const { stdout } = await run(
      shell(`(sleep 30; echo late > ${left}) >/dev/null 2>&1 & setsid sleep 30 >/dev/null 2>&1 & echo up`),
      policy,
    );
    expect(stdout).toBe('up\n');
    expect(readdirSync(workspace)).toEqual([]);
  });

  test('reports that its executable does not exist in the sandbox', async () => {
    const hidden = join(workspace, 'hidden');
    mkdirSync(hidden);
    writeFileSync(join(hidden, 'tool'), '#!/bin/sh\n', { mode: 0o755 });
    const outcome = await run(
      command([join(hidden, 'tool')]),
      workspacePolicy(workspace, { [hidden]: 'deny' }),
    );
    expect(outcome.stderr).toMatch(/^exec-server: cannot execute .*hidden\/tool inside the sandbox/);
    expect(outcome).toMatchObject({ status: { code: 126 }, denied: true });
  });

  test('runs where /proc is denied', async () => {
    const outcome = await run(
      shell('ls /proc || echo closed'),
      workspacePolicy(workspace, { '/proc': 'deny' }),
    );
    expect(outcome).toMatchObject({ stdout: 'closed\n', status: { code: 0 } });
  });

  test('gets an empty file for each denied file, even for more files than this process has descriptors', async () => {
    const names = Array.from({ length: 300 }, (_, index) => join(workspace, `secret-${index}`));
    for (const name of names) writeFileSync(name, 'secret');
    const closed = Object.fromEntries(names.map((name) => [name, 'deny'] as const));
    const { stdout } = await run(
      shell('cat secret-* 2>/dev/null | wc -c; ls | wc -l'),
      workspacePolicy(workspace, closed),
    );
    expect(stdout).toBe('0\n300\n');
    expect(readFileSync(names[0]!, 'utf8')).toBe('secret');
  });

  test('runs concurrently with many others', async () => {
    const outcomes = await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        run(shell(`echo ${index} > f${index}; cat f${index}; ls -A | grep -c '^\\.'`), policy),
      ),
    );
    expect(outcomes.map(({ stdout }) => stdout)).toEqual(outcomes.map((_, index) => `${index}\n4\n`));
    expect(readdirSync(workspace).filter((name) => name.startsWith('.'))).toEqual([]);
  });
});

describe('the network', () => {
  const sockets = `
import socket
for family, kind in ((socket.AF_INET, 1), (socket.AF_INET6, 1), (socket.AF_UNIX, 1), (16, 3)):
    try: socket.socket(family, kind).close(); print('ok', end=' ')
    except OSError as error: print(error.errno, end=' ')
try: a, b = socket.socketpair(); a.sendmsg([b'x']); print(b.recv(1), end=' ')
except OSError as error: print(error.errno, end=' ')
`;

  test.each([
    ['restricted', "1 1 ok 1 b'x'"],
    ['proxied', "ok ok 1 1 b'x'"],
    ['enabled', "ok ok ok ok b'x'"],
  ] as const)('is judged by the filter: %s', async (mode, expected) => {
    expect((await run(python(sockets), policy, mode)).stdout.trim()).toBe(expected);
  });

  test.each([
    ['restricted', false],
    ['proxied', false],
    ['enabled', true],
  ] as const)("is the machine's own only when it is enabled: %s", async (mode, shared) => {
    const { stdout } = await run(command(['/bin/readlink', '/proc/self/ns/net']), policy, mode);
    expect(stdout.trim() === readlinkSync('/proc/self/ns/net')).toBe(shared);
  });
});

describe('a program that may write everywhere', () => {
  test('only gets a system call filter while the network is restricted', async () => {
    const status = command(['/bin/grep', '-E', 'CapEff|NoNewPrivs|Seccomp:', '/proc/self/status']);
    const capabilities = /^CapEff:.*$/m.exec(readFileSync('/proc/self/status', 'latin1'))?.[0];
    const filtered = await run(status, UNRESTRICTED);
    expect(filtered.stdout).toBe(`${capabilities}\nNoNewPrivs:\t1\nSeccomp:\t2\n`);
    const namespace = await run(
      command(['/bin/readlink', '/proc/self/ns/mnt', '/proc/self/ns/net']),
      UNRESTRICTED,
    );
    expect(namespace.stdout).toBe(
      `${readlinkSync('/proc/self/ns/mnt')}\n${readlinkSync('/proc/self/ns/net')}\n`,
    );
    const socket = await run(python('import socket; socket.socket()'), UNRESTRICTED);
    expect(socket.stderr).toContain('Operation not permitted');
  });

  test('keeps its arguments, environment, exit code and directory', async () => {
    const spec = {
      ...shell('echo "$0 $A"; pwd; exit 7'),
      argv: ['zero', '-c', 'echo "$0 $A"; pwd; exit 7'],
      env: { A: 'b' },
    };
    expect(await run(spec, UNRESTRICTED)).toMatchObject({
      stdout: `zero b\n${workspace}\n`,
      status: { code: 7 },
    });
  });

  test('runs without a sandbox when the network is enabled too', async () => {
    const spec = shell('true');
    expect((await builder.wrapProgram(spec, UNRESTRICTED, 'enabled')).spec).toBe(spec);
  });

  test('gets its own network namespace when it is proxied', async () => {
    const { stdout } = await run(shell('echo x > file; readlink /proc/self/ns/net'), UNRESTRICTED, 'proxied');
    expect(stdout.trim()).not.toBe(readlinkSync('/proc/self/ns/net'));
    expect(readFileSync(join(workspace, 'file'), 'utf8')).toBe('x\n');
  });
});

describe('placeholders', () => {
  test('exist while the program runs, are read-only for it, and are removed afterwards', async () => {
    const script =
      'for name in .git .aws .codex .agents; do mkdir $name/x 2>/dev/null && echo made; rmdir $name 2>/dev/null && echo removed; done; echo up; read line';
    const program = await start({ ...shell(script, INPUT), cwd: workspace }, policy);
    await waitFor('the program', () => program.text('stdout').includes('up'));
    expect(program.text('stdout')).toBe('up\n');
    expect(readdirSync(workspace).sort()).toEqual(PROTECTED_NAMES);
    program.child.stdin?.end();
    await program.finish();
    expect(readdirSync(workspace)).toEqual([]);
  });

  test('are removed after the program was killed', async () => {
    const program = await start({ ...shell('echo up; sleep 60'), cwd: workspace }, policy);
    await waitFor('the program', () => program.text('stdout').includes('up'));
    void program.child.killTree();
    expect(await program.finish()).toMatchObject({ status: { signal: 9 } });
    expect(readdirSync(workspace)).toEqual([]);
  });

  test('stay read-only for a program while others start and exit', async () => {
    const script = 'echo up; read line; mkdir .git 2>&1; mkdir .git/hooks 2>&1';
    const program = await start({ ...shell(script, INPUT), cwd: workspace }, policy);
    await waitFor('the program', () => program.text('stdout').includes('up'));
    for (let round = 0; round < 5; round++) await run(shell('true'), policy);
    program.child.stdin?.write(Buffer.from('\n'), () => {});
    const { stdout } = await program.finish();
    expect(stdout).toMatch(/File exists/);
    expect(stdout).toMatch(/Read-only file system|Permission denied/);
    expect(readdirSync(workspace)).toEqual([]);
  });

  test('are released when the sandbox needs too many arguments', async () => {
    const secrets = join(workspace, 'secrets');
    mkdirSync(secrets);
    const files = Array.from({ length: 1_900 }, (_, index) => join(secrets, String(index)));
    for (const file of files) writeFileSync(file, '');
    const denied = Object.fromEntries(files.map((file) => [file, 'deny' as const]));
    const started = start({ ...shell('true'), cwd: workspace }, workspacePolicy(workspace, denied));
    await expect(started).rejects.toThrow('more mounts than bwrap can make');
    expect(readdirSync(workspace)).toEqual(['secrets']);
  });

  test('are released when no descriptor is left for bwrap', async () => {
    const full = () => {
      throw Object.assign(new Error('too many open files'), { code: 'EMFILE' });
    };
    const poor = newSandboxBuilder(spawner, { ...spawner.sandboxCalls, createPipe: full });
    const spec = { ...shell('true'), cwd: workspace };
    await (await starter(spawner, poor)(spec, policy)).finish();
    await expect(poor.wrapProgram(spec, policy, 'restricted')).rejects.toMatchObject({ code: 'EMFILE' });
    await poor.close();
    expect(readdirSync(workspace)).toEqual([]);
  });

  test('are released when a start with a cached plan is cancelled', async () => {
    const cancel = new AbortController();
    let locks = 0;
    const lock: SandboxCalls['lock'] = (fd, mode) => {
      if (mode === 'shared' && ++locks > PROTECTED_NAMES.length) cancel.abort();
      return spawner.sandboxCalls.lock(fd, mode);
    };
    const cancelling = newSandboxBuilder(spawner, { ...spawner.sandboxCalls, lock });
    const spec = { ...shell('true'), cwd: workspace };
    await (await starter(spawner, cancelling)(spec, policy)).finish();
    const { signal } = cancel;
    const wrapInSandbox = () => cancelling.wrapProgram(spec, policy, 'restricted', signal);
    const unaborted = { spawn: (inner: SpawnSpec) => spawner.spawn(inner) };
    await expect(startProgram(spec, wrapInSandbox, unaborted, signal)).rejects.toThrow('aborted');
    await cancelling.close();
    expect(locks).toBe(2 * PROTECTED_NAMES.length);
    expect(readdirSync(workspace)).toEqual([]);
  });

  test('are released when a start is cancelled while they are created', async () => {
    const cancel = new AbortController();
    let made = 0;
    const lock: SandboxCalls['lock'] = (fd, mode) => {
      if (mode === 'shared') made++;
      cancel.abort();
      return spawner.sandboxCalls.lock(fd, mode);
    };
    const cancelling = newSandboxBuilder(spawner, { ...spawner.sandboxCalls, lock });
    const spec = { ...shell('true'), cwd: workspace };
    await expect(cancelling.wrapProgram(spec, policy, 'restricted', cancel.signal)).rejects.toMatchObject({
      code: 'ECANCELED',
    });
    await cancelling.close();
    expect(made).toBe(PROTECTED_NAMES.length);
    expect(readdirSync(workspace)).toEqual([]);
  });
});

describe('launch errors are the same with and without a sandbox', () => {
  test.each<[string, Partial<SpawnSpec>, string]>([
    ['a missing program', { program: '/no/such/program' }, 'ENOENT'],
    ['a name that is nowhere on the PATH', { program: 'no-such-program' }, 'ENOENT'],
    ['a file that is not executable', { program: '/etc/passwd' }, 'EACCES'],
    ['a missing directory', { cwd: '/no/such/directory' }, 'ENOENT'],
    ['a file as directory', { cwd: '/etc/passwd' }, 'ENOTDIR'],
    ['a NUL in an argument', { argv: ['a\0b'] }, 'EINVAL'],
  ])('%s', async (_, change, code) => {
    const spec = { ...command(['/bin/true']), cwd: workspace, ...change };
    for (const [disk, network] of [
      [policy, 'restricted'],
      [UNRESTRICTED, 'restricted'],
    ] as const) {
      const error = await builder.wrapProgram(spec, disk, network).catch((reason: unknown) => reason);
      const plain = await spawner.spawn(spec).catch((reason: unknown) => reason);
      expect(error).toBeInstanceOf(SpawnError);
      expect(error).toEqual(plain);
      expect(error).toMatchObject({ code });
    }
    expect(readdirSync(workspace)).toEqual([]);
  });

  test('a NUL in an argument of a program with a cached launch check', async () => {
    const spec = { ...command(['/bin/true']), cwd: workspace };
    await (await start(spec, policy)).finish();
    await expect(builder.wrapProgram({ ...spec, argv: ['a\0b'] }, policy, 'restricted')).rejects.toThrow(
      'NUL',
    );
  });
});

describe('a program is refused', () => {
  test('when bwrap would be writable', async () => {
    const open = workspacePolicy(workspace, { [dirname(realpathSync('/usr/bin/bwrap'))]: 'write' });
    await expect(
      builder.wrapProgram({ ...shell('true'), cwd: workspace }, open, 'restricted'),
    ).rejects.toThrow(/would make bwrap itself/);
    expect(readdirSync(workspace)).toEqual([]);
  });

  test('when the spawner cannot start a sandbox', async () => {
    const launch = await builder.wrapProgram(
      { ...shell('true'), cwd: workspace },
      UNRESTRICTED,
      'restricted',
    );
    const node = new NodeSpawner('no terminals');
    await expect(spawnLaunch(launch, node)).rejects.toMatchObject({ code: 'ENOTSUP' });
    await node.close();
  });
});
