import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { loadLibc } from '../../../../src/native/libc.ts';
import { NativeSpawner } from '../../../../src/process/spawn/native-spawner.ts';
import type { ChildIo } from '../../../../src/process/spawn/spawner.ts';
import { LaunchReport } from '../../../../src/sandbox/linux/launcher.ts';
import {
  childPids,
  command,
  INPUT,
  isAlive,
  NO_INPUT,
  openDescriptors,
  record,
  shell,
  TERMINAL,
} from '../../../support/children.ts';
import { waitFor } from '../../../support/wait-for.ts';
import {
  newSandboxBuilder,
  removedAreClosed,
  type SandboxedProgram,
  starter,
  UNRESTRICTED,
  workspacePolicy,
} from './sandboxed-programs.ts';

const spawner = new NativeSpawner(loadLibc());
const start = starter(spawner, newSandboxBuilder(spawner));
const warm = mkdtempSync(join(tmpdir(), 'sandboxed-life-'));
await (await start(shell('true', TERMINAL), workspacePolicy(warm))).finish();
rmSync(warm, { recursive: true });

let workspace: string;
let descriptors: number;

beforeEach(async () => {
  workspace = mkdtempSync(join(tmpdir(), 'sandboxed-life-'));
  await removedAreClosed();
  descriptors = openDescriptors();
});

afterEach(async () => {
  await removedAreClosed();
  expect(openDescriptors()).toBe(descriptors);
  expect(readdirSync(workspace)).toEqual([]);
  rmSync(workspace, { recursive: true });
});

afterAll(async () => {
  await spawner.close();
  expect(childPids()).toEqual([]);
});

const launch = (argv: readonly [string, ...string[]], io: ChildIo = NO_INPUT): Promise<SandboxedProgram> =>
  start({ ...command(argv), cwd: workspace, io }, workspacePolicy(workspace));
const script = (text: string, io: ChildIo = NO_INPUT) => launch(['/bin/sh', '-c', text], io);
const type = (program: SandboxedProgram, text: string) =>
  program.child.stdin?.write(Buffer.from(text), () => {});
const says = (program: SandboxedProgram, text: string) =>
  waitFor(`"${text}"`, () => (program.text('pty') + program.text('stdout')).includes(text));

/** Host pids of a program and everything below it. */
function family(pid: number): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1')
    .trim()
    .split(' ')
    .filter(Boolean);
  return [pid, ...children.flatMap((child) => family(Number(child)))];
}

describe('signals', () => {
  test.each([
    ['SIGINT', 2],
    ['SIGTERM', 15],
    ['SIGHUP', 1],
    ['SIGUSR1', 10],
  ])('%s reaches the command, which may handle it', async (name, signal) => {
    const program = await script(
      `trap 'echo caught; exit 7' ${name.slice(3)}; echo up; while :; do sleep 0.02; done`,
    );
    await says(program, 'up');
    expect(program.child.signalGroup(signal)).toBe(true);
    expect(await program.finish()).toMatchObject({
      stdout: 'up\ncaught\n',
      status: { code: 7, signal: null },
    });
  });

  test.each([2, 15, 9])(
    'signal %i ends a command that does not handle it, with 128 + signal',
    async (signal) => {
      const program = await script('echo up; exec sleep 60');
      await says(program, 'up');
      expect(program.child.signalGroup(signal)).toBe(true);
      expect((await program.finish()).status).toEqual({ code: 128 + signal, signal: null });
    },
  );

  test('reach the whole process group of the command', async () => {
    const program = await script(`sleep 60 & trap 'wait; echo both; exit 0' TERM; echo up; wait`);
    await says(program, 'up');
    program.child.signalGroup(15);
    expect((await program.finish()).stdout).toBe('up\nboth\n');
  });

  test('wait for a command that has not started yet', async () => {
    const program = await script('exec sleep 60');
    expect(program.child.signalGroup(15)).toBe(true);
    expect(program.child.signalGroup(15)).toBe(true);
    expect((await program.finish()).status).toEqual({ code: 143, signal: null });
  });

  test('have no effect after the command has exited', async () => {
    const program = await script('true');
    await program.finish();
    expect(program.child.signalGroup(15)).toBe(false);
  });

  test('are dropped when the sandbox is killed first', async () => {
    const program = await script('sleep 60');
    // SIGURG, which has no effect on a running command.
    program.child.signalGroup(23);
    void program.child.killTree();
    expect((await program.finish()).status).toEqual({ code: null, signal: 9 });
  });

  test('reach a program that only has a filter', async () => {
    const spec = shell(`trap 'echo caught; exit 7' INT; echo up; while :; do sleep 0.02; done`);
    const program = await start({ ...spec, cwd: workspace }, UNRESTRICTED);
    await says(program, 'up');
    program.child.signalGroup(2);
    expect(await program.finish()).toMatchObject({ stdout: 'up\ncaught\n', status: { code: 7 } });
  });
});

describe('killing', () => {
  test('ends all processes of the sandbox', async () => {
    const program = await script(
      'setsid sleep 60 & (setsid sleep 60 &) ; nohup sleep 60 >/dev/null 2>&1 & echo up; wait',
    );
    await says(program, 'up');
    await waitFor('all of them', () => family(program.child.pid).length >= 6);
    const pids = family(program.child.pid);
    void program.child.killTree();
    expect((await program.finish()).status).toEqual({ code: null, signal: 9 });
    expect(pids.filter(isAlive)).toEqual([]);
  });

  test('of bwrap by another process ends the sandbox too', async () => {
    const program = await script('setsid sleep 60 & echo up; wait');
    await says(program, 'up');
    const pids = family(program.child.pid);
    process.kill(program.child.pid, 'SIGKILL');
    await waitFor('the sandbox to die', () => !pids.some(isAlive));
    await program.finish();
  });
});

describe('the exit of a program', () => {
  test('ends its background processes without a search for them', async () => {
    const program = await script(
      'setsid sleep 60 >&- 2>&- & (setsid sleep 60 >&- 2>&- &) ; echo up; read line',
      INPUT,
    );
    const { child } = program;
    expect(await child.report).toBe(LaunchReport.complete);
    await says(program, 'up');
    await waitFor('all of them', () => family(child.pid).length >= 5);
    // The second is process 1 of the sandbox, which may still be exiting.
    const [, , ...inside] = family(child.pid);
    const sweep = vi.spyOn(child, 'killTree');
    child.stdin?.end();
    await program.exited;
    await child.waitForTreeExit();
    expect(inside.filter(isAlive)).toEqual([]);
    expect(sweep).not.toHaveBeenCalled();
    await program.finish();
  });

  test('ends the report pipe, also while a background process holds it', async () => {
    const silent = {
      ...command(['/bin/sh', '-c', 'sleep 60 & exit']),
      wrapper: 'contains',
      inherited: ['report'],
    } as const;
    const { child, exited } = record(await spawner.spawn(silent));
    expect(await Promise.all([child.report, exited])).toMatchObject([null, { code: 0 }]);
    await child.waitForTreeExit();
    child.release();
  });

  test('searches for leftovers when the processes of the sandbox are unknown', async () => {
    // Nothing is written to the pipe of this one.
    const silent = {
      ...command(['/bin/sh', '-c', 'sleep 60 3>&- & exit']),
      wrapper: 'contains',
      inherited: ['report'],
    } as const;
    const { child, exited } = record(await spawner.spawn(silent));
    expect(await Promise.all([child.report, exited])).toMatchObject([null, { code: 0 }]);
    const sweep = vi.spyOn(child, 'killTree');
    await child.waitForTreeExit();
    expect(sweep).toHaveBeenCalledTimes(1);
    child.release();
  });
});

describe('a terminal', () => {
  test('is the controlling terminal of the command', async () => {
    const { pty, status } = await (
      await script('tty; stty size; echo hello > /dev/tty; ps -o pid=,sid=,tpgid= -p $$', TERMINAL)
    ).finish();
    const [tty, size, hello, ids = ''] = pty.trim().split(/\r\n/);
    expect([tty, size, hello]).toEqual(['/dev/console', '24 80', 'hello']);
    expect(new Set(ids.trim().split(/\s+/)).size).toBe(1);
    expect(status).toEqual({ code: 0, signal: null });
  });

  test('sends ^C to the foreground process', async () => {
    const program = await launch(
      [
        '/usr/bin/python3',
        '-c',
        `
import time
try:
    print('up', flush=True)
    time.sleep(60)
except KeyboardInterrupt: print('interrupted', flush=True)`,
      ],
      TERMINAL,
    );
    await says(program, 'up');
    type(program, '\x03');
    expect(await program.finish()).toMatchObject({
      pty: expect.stringContaining('interrupted'),
      status: { code: 0 },
    });
  });

  test('has job control for a shell', async () => {
    const program = await launch(['/bin/bash', '--norc', '-i'], TERMINAL);
    type(program, 'sleep 60\n');
    await waitFor('sleep to run', () =>
      family(program.child.pid).some((pid) => readFileSync(`/proc/${pid}/comm`, 'latin1') === 'sleep\n'),
    );
    type(program, '\x03');
    type(program, 'echo code=$?\n');
    await says(program, 'code=130');
    type(program, 'sleep 60 & jobs; kill %1; exit 5\n');
    const { pty, status } = await program.finish();
    expect(pty).not.toContain('no job control');
    expect(pty).toMatch(/\[1\]\+\s+Running/);
    expect(status).toEqual({ code: 5, signal: null });
  });

  test('reports a new size', async () => {
    const program = await script(
      `trap 'stty size; exit' WINCH; echo up; while :; do sleep 0.02; done`,
      TERMINAL,
    );
    await says(program, 'up');
    program.child.resize(33, 99);
    expect((await program.finish()).pty).toContain('33 99');
  });

  test('ends its input with ^D', async () => {
    const program = await script('cat; echo end', TERMINAL);
    type(program, 'line\n\x04');
    expect((await program.finish()).pty).toMatch(/line\r\nline\r\nend/);
  });
});

describe.runIf(process.arch === 'x64')('the seccomp filter on real programs', () => {
  const calls = (text: string) =>
    launch([
      '/usr/bin/python3',
      '-c',
      `
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def call(*args):
    ctypes.set_errno(0)
    result = libc.syscall(*args)
    return ctypes.get_errno() if result < 0 else 0
${text}`,
    ]);

  test('denies calls', async () => {
    const numbers = {
      io_uring_setup: 425,
      keyctl: 250,
      userfaultfd: 323,
      ptrace: 101,
      lookup_dcookie: 212,
      process_vm_readv: 310,
    };
    const program = await calls(
      `print([call(nr, 0, 0, 0, 0, 0, 0) for nr in ${JSON.stringify(Object.values(numbers))}])`,
    );
    expect((await program.finish()).stdout.trim()).toBe(
      `[${Object.values(numbers)
        .map(() => 1)
        .join(', ')}]`,
    );
  });

  test('allows user namespaces, but no mounts in them', async () => {
    const program = await calls(`
print(call(272, 0x10020000))
print(call(165, b'none', b'/tmp', b'tmpfs', 0, 0), call(166, b'/tmp', 2), call(155, b'/', b'/'))`);
    expect((await program.finish()).stdout).toBe('0\n1 1 1\n');
  });

  test('denies x32 calls', async () => {
    expect((await (await calls('print(call(0x40000000 + 39))')).finish()).stdout).toBe('1\n');
  });

  test('kills the process for a call of another architecture', async () => {
    const program = await calls(`
import mmap
page = mmap.mmap(-1, 4096, prot=7)
page.write(bytes.fromhex('b814000000cd80c3'))
ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
print('alive')`);
    expect(await program.finish()).toMatchObject({ stdout: '', status: { code: 159 }, denied: true });
  });
});
