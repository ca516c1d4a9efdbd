import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { loadLibc } from '../../../../src/native/libc.ts';
import { NativeSpawner } from '../../../../src/process/spawn/native-spawner.ts';
import type { Child, SpawnSpec } from '../../../../src/process/spawn/spawner.ts';
import { startProgram } from '../../../../src/process/start-program.ts';
import { Instructions } from '../../../../src/sandbox/linux/instructions.ts';
import { MAX_PREBUILD_FAILURES, POOLED_SANDBOX_IDLE_MS } from '../../../../src/sandbox/linux/limits.ts';
import type { LinuxSandboxBuilder } from '../../../../src/sandbox/linux/sandbox-builder.ts';
import { SandboxPool } from '../../../../src/sandbox/linux/sandbox-pool.ts';
import {
  childPids,
  INPUT,
  isAlive,
  openDescriptors,
  record,
  shell,
  TERMINAL,
} from '../../../support/children.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { newSandboxBuilder, removedAreClosed, workspacePolicy } from './sandboxed-programs.ts';

let workspace: string;
let spawner: NativeSpawner;
let sandboxes: SandboxPool;
let builder: LinuxSandboxBuilder;
/** Every bwrap that was started in reserve, dead or alive. */
let reserve: Child[];
/** Called before one is. */
let beforeReserve: () => void;
/** Whether something was mounted or unmounted. */
let mountsChanged: boolean;
let descriptors: number;
/** What the policy says besides. */
let more: Parameters<typeof workspacePolicy>[1];

beforeEach(async () => {
  workspace = realpathSync(mkdtempSync(join(tmpdir(), 'reserve-')));
  mkdirSync(join(workspace, '.git'));
  more = {};
  spawner = new NativeSpawner(loadLibc());
  reserve = [];
  beforeReserve = () => {};
  mountsChanged = false;
  const calls = {
    ...spawner.sandboxCalls,
    hasChanged: (fd: number) => spawner.sandboxCalls.hasChanged(fd) || mountsChanged,
  };
  sandboxes = new SandboxPool(async (spec) => {
    beforeReserve();
    const child = await spawner.spawn(spec);
    reserve.push(child);
    return child;
  }, calls);
  builder = newSandboxBuilder(spawner, spawner.sandboxCalls, sandboxes);
  // The first one has its plan made, and loads what stays open.
  await runToEnd(shell('true'));
  descriptors = openDescriptors();
});

afterEach(async () => {
  await builder.close();
  expect(reserve.filter(({ pid }) => isAlive(pid))).toEqual([]);
  await waitFor('every descriptor to be closed', () => openDescriptors() === descriptors);
  await spawner.close();
  expect(childPids()).toEqual([]);
  expect(readdirSync(workspace)).toEqual(['.git']);
  rmSync(workspace, { recursive: true });
});

async function start(spec: SpawnSpec, signal = new AbortController().signal, folder = workspace) {
  const inner = { ...spec, cwd: folder };
  const wrapInSandbox = (asked: SpawnSpec) =>
    builder.wrapProgram(asked, workspacePolicy(folder, more), 'restricted', signal);
  return await startProgram(inner, wrapInSandbox, spawner, signal);
}

/** Runs a program to its end, and tells its output and the pid of the bwrap that it ran in. */
async function runToEnd(
  spec: SpawnSpec,
  folder = workspace,
): Promise<{ readonly output: string; readonly pid: number }> {
  const { child, launch } = await start(spec, undefined, folder);
  const transcript = record(child);
  if (spec.io.kind === 'pipe') child.stdin?.end();
  await Promise.all([transcript.exited, transcript.ended]);
  child.release();
  await child.waitForTreeExit();
  await launch?.release?.();
  await removedAreClosed();
  return { output: transcript.text('stdout') + transcript.text('pty'), pid: child.pid };
}

const idle = () => reserve.filter(({ pid }) => isAlive(pid)).map(({ pid }) => pid);
const isReady = (count: number) => waitFor('a sandbox in reserve', () => reserve.length === count);

/** A reserve of one sandbox for programs without an input; its pid. */
async function withReserve(): Promise<number> {
  await runToEnd(shell('true'));
  await isReady(1);
  return reserve[0]!.pid;
}

describe('a sandbox in reserve', () => {
  test('is there for a policy that is used again, and none before', async () => {
    expect(reserve).toEqual([]);
    const spare = await withReserve();
    expect(idle()).toEqual([spare]);
  });

  test('leaves nothing in the workspace while it waits', async () => {
    await withReserve();
    expect(readdirSync(workspace)).toEqual(['.git']);
  });

  test('runs the next program, as sandboxed as every other', async () => {
    const spare = await withReserve();
    const script = [
      'echo "$0 $A $PWD"',
      'touch kept; rm kept',
      'for at in .git .codex .agents .aws /; do touch $at/x 2>&1; done',
      'ls -A',
      'grep -c "^" /proc/sys/kernel/ostype; echo x 2>/dev/null > /proc/sys/kernel/hostname || echo no',
      'grep -E "NoNewPrivs|Seccomp:|CapEff" /proc/self/status',
      'ls /proc/self/fd | wc -l',
    ].join('; ');
    const { output, pid } = await runToEnd(shell(script));
    const without = newSandboxBuilder(spawner);
    builder = without;
    const other = await runToEnd(shell(script));
    expect(pid).toBe(spare);
    expect(output.match(/Read-only file system/g)).toHaveLength(5);
    expect(output).toBe(other.output);
    expect(output.startsWith(`/bin/sh  ${workspace}\n`)).toBe(true);
    await sandboxes.close();
  });

  test('is followed by another', async () => {
    await withReserve();
    await runToEnd(shell('true'));
    await isReady(2);
    expect(idle()).toEqual([reserve[1]!.pid]);
  });

  test('is not used when a name that it protects is there meanwhile', async () => {
    const spare = await withReserve();
    mkdirSync(join(workspace, '.codex'));
    writeFileSync(join(workspace, '.codex', 'mine'), '');
    const { output, pid } = await runToEnd(shell('cat .codex/mine; touch .codex/x .git/x 2>&1'));
    expect(pid).not.toBe(spare);
    expect(output.match(/Read-only file system/g)).toHaveLength(2);
    await waitFor('its end', () => !isAlive(spare));
    rmSync(join(workspace, '.codex'), { recursive: true });
  });

  test('is not used when what it has mounted was exchanged', async () => {
    const spare = await withReserve();
    renameSync(join(workspace, '.git'), join(workspace, 'old'));
    mkdirSync(join(workspace, '.git'));
    const { output, pid } = await runToEnd(shell('touch .git/x 2>&1; rmdir old; ls'));
    expect(pid).not.toBe(spare);
    expect(output).toMatch(/^[^\n]*Read-only file system\n$/);
  });

  test('is not used when the workspace was made anew', async () => {
    const spare = await withReserve();
    rmSync(workspace, { recursive: true });
    mkdirSync(join(workspace, '.git'), { recursive: true });
    const { output, pid } = await runToEnd(shell('touch .git/x 2>&1; touch here; ls; rm here'));
    expect(pid).not.toBe(spare);
    expect(output).toMatch(/Read-only file system\nhere\n$/);
  });

  test('is not used when something was mounted or unmounted meanwhile', async () => {
    const spare = await withReserve();
    mountsChanged = true;
    expect((await runToEnd(shell('true'))).pid).not.toBe(spare);
    await waitFor('its end', () => !isAlive(spare));
  });

  test('is for its own policy only', async () => {
    const other = realpathSync(mkdtempSync(join(tmpdir(), 'reserve-')));
    await runToEnd(shell('true'), other);
    const spare = await withReserve();
    const script = `touch mine; ls; touch ${workspace}/yours ${workspace}/.git/yours .git/yours 2>&1; pwd`;
    const { output, pid } = await runToEnd(shell(script), other);
    expect(pid).not.toBe(spare);
    expect(output).toMatch(/^mine\n(.*Read-only file system\n){3}/);
    expect(output.endsWith(`\n${other}\n`)).toBe(true);
    expect(readdirSync(other)).toEqual(['mine']);
    rmSync(other, { recursive: true });
  });

  describe('where files are denied', () => {
    let secret: string;
    let folder: string;

    beforeEach(async () => {
      [secret, folder] = [join(workspace, 'secret'), join(workspace, 'denied')];
      writeFileSync(secret, 'told');
      mkdirSync(folder);
      writeFileSync(join(folder, 'inner'), 'told');
      more = { [secret]: 'deny', [folder]: 'deny' };
      await runToEnd(shell('true'));
    });

    afterEach(() => {
      rmSync(secret, { force: true, recursive: true });
      rmSync(folder, { force: true, recursive: true });
    });

    const script = 'cat secret denied/inner; ls denied; echo over';

    test('keeps them', async () => {
      const spare = await withReserve();
      const { output, pid } = await runToEnd(shell(script));
      expect([output, pid]).toEqual(['over\n', spare]);
    });

    test('is not used when one was exchanged, and with it what covered it', async () => {
      const spare = await withReserve();
      writeFileSync(join(workspace, 'new'), 'told');
      renameSync(join(workspace, 'new'), secret);
      const { output, pid } = await runToEnd(shell(script));
      expect(output).toBe('over\n');
      expect(pid).not.toBe(spare);
    });

    test.each([
      ['file', () => secret],
      ['directory', () => folder],
    ])('does not bring back a %s that is gone meanwhile', async (_, path) => {
      const spare = await withReserve();
      rmSync(path(), { recursive: true });
      expect((await runToEnd(shell('echo fine'))).output).toBe('fine\n');
      await waitFor('its end', () => !isAlive(spare));
      expect(existsSync(path())).toBe(false);
    });

    test('and what is there is another thing at each attempt, nothing is started', async () => {
      await withReserve();
      const { signal } = new AbortController();
      const wrapInSandbox = (asked: SpawnSpec) => {
        const isFile = statSync(secret).isFile();
        rmSync(secret, { recursive: true });
        if (isFile) mkdirSync(secret);
        else writeFileSync(secret, '');
        return builder.wrapProgram(asked, workspacePolicy(workspace, more), 'restricted', signal);
      };
      const started = startProgram(shell('true'), wrapInSandbox, spawner, signal);
      await expect(started).rejects.toThrow('the files to protect keep changing');
    });

    test('is not made when one is missing', async () => {
      rmSync(secret);
      for (const word of ['one', 'two', 'three'])
        expect((await runToEnd(shell(`echo ${word}`))).output).toBe(`${word}\n`);
      expect(reserve).toEqual([]);
      expect(existsSync(secret)).toBe(false);
    });
  });

  test('that finds its pipe closed executes nothing', async () => {
    const take = vi.spyOn(sandboxes, 'take');
    await withReserve();
    const [plan, kind] = take.mock.lastCall!;
    take.mockRestore();
    const { child, instructions } = sandboxes.take(plan, kind)!;
    const transcript = record(child);
    instructions.close();
    await Promise.all([transcript.exited, transcript.ended]);
    expect(transcript.text('stdout')).toBe('');
    expect(await child.report).toBeNull();
    child.release();
    await child.waitForTreeExit();
  });

  test('that came to nothing a few times is the last for its plan', async () => {
    for (let failure = 1; failure <= MAX_PREBUILD_FAILURES; failure++) {
      await runToEnd(shell('true'));
      await isReady(failure);
      process.kill(reserve.at(-1)!.pid, 'SIGKILL');
      await waitFor('all of it to be closed', () => openDescriptors() === descriptors);
    }
    expect((await runToEnd(shell('echo fine'))).output).toBe('fine\n');
    expect((await runToEnd(shell('echo fine'))).output).toBe('fine\n');
    expect(reserve).toHaveLength(MAX_PREBUILD_FAILURES);
  });

  test('that was used makes up for those that came to nothing', async () => {
    let built = 0;
    for (let failure = 1; failure <= MAX_PREBUILD_FAILURES + 1; failure++) {
      await runToEnd(shell('true'));
      await isReady(++built);
      const { pid } = reserve.at(-1)!;
      expect((await runToEnd(shell('true'))).pid).toBe(pid);
      await isReady(++built);
      process.kill(reserve.at(-1)!.pid, 'SIGKILL');
      await waitFor('all of it to be closed', () => openDescriptors() === descriptors);
    }
  });

  test.each([
    ['with an input', INPUT],
    ['on a terminal', TERMINAL],
  ])('is not for a program %s', async (_, io) => {
    const spare = await withReserve();
    const { output, pid } = await runToEnd(shell('echo fine', io));
    expect(output).toMatch(/^fine/);
    expect(pid).not.toBe(spare);
    expect(isAlive(spare)).toBe(true);
  });

  test('is not for a program with a limit', async () => {
    const spare = await withReserve();
    const limited = { ...shell('true'), resources: { memoryBytes: 1e9, pids: null, cpuPercent: null } };
    expect((await runToEnd(limited)).pid).not.toBe(spare);
    expect(isAlive(spare)).toBe(true);
  });

  test('knows nothing of the program that it was started with', async () => {
    const secret = shell('true');
    await runToEnd({ ...secret, env: { SECRET: 'for-this-one-only' } });
    await isReady(1);
    for (const file of ['cmdline', 'environ', 'maps']) {
      expect(readFileSync(`/proc/${reserve[0]!.pid}/${file}`, 'latin1')).not.toContain('for-this-one-only');
    }
  });

  test('is ended when nobody needs it for a while', async () => {
    const timers = vi.spyOn(globalThis, 'setTimeout');
    await withReserve();
    const [expire] = timers.mock.calls.find(([, ms]) => ms === POOLED_SANDBOX_IDLE_MS)!;
    timers.mockRestore();
    expect(idle()).toHaveLength(1);
    expire();
    await waitFor('its end', () => idle().length === 0);
    expect((await runToEnd(shell('echo fine'))).output).toBe('fine\n');
  });

  test('that has been killed is not used, even if nobody has been told yet', async () => {
    const spare = await withReserve();
    process.kill(spare, 'SIGKILL');
    // The event loop does not turn, so that it does not hear of the end.
    for (const endMs = performance.now() + 10_000; !spawner.sandboxCalls.hasExited(spare); )
      expect(performance.now()).toBeLessThan(endMs);
    const { output, pid } = await runToEnd(shell('echo fine'));
    expect(output).toBe('fine\n');
    expect(pid).not.toBe(spare);
  });

  test('ends with the program whose start is given up', async () => {
    const spare = await withReserve();
    const giveUp = new AbortController();
    const started = start(shell('echo never'), giveUp.signal);
    const failed = vi.spyOn(sandboxes, 'noteFailure');
    giveUp.abort();
    await expect(started).rejects.toThrow();
    await waitFor('its end', () => !isAlive(spare));
    expect(failed).not.toHaveBeenCalled();
  });

  test('whose start is given up when it has been told is no failure of its own', async () => {
    const spare = await withReserve();
    const giveUp = new AbortController();
    const failed = vi.spyOn(sandboxes, 'noteFailure');
    const told = vi.spyOn(Instructions.prototype, 'send').mockImplementationOnce(async () => giveUp.abort());
    await expect(start(shell('echo never'), giveUp.signal)).rejects.toThrow();
    await waitFor('its end', () => !isAlive(spare));
    told.mockRestore();
    expect(failed).not.toHaveBeenCalled();
  });

  test('that cannot be started is nobody’s failure', async () => {
    beforeReserve = () => {
      throw new Error('no more processes');
    };
    for (const word of ['one', 'two', 'three']) {
      expect((await runToEnd(shell(`echo ${word}`))).output).toBe(`${word}\n`);
    }
  });
});
