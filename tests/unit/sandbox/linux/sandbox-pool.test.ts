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
/** Every pre-built bwrap, dead or alive. */
let prebuilt: Child[];
/** Called before one is started. */
let beforeBuild: () => void;
/** Whether something was mounted or unmounted. */
let mountsChanged: boolean;
let descriptors: number;
/** Further entries of the policy. */
let more: Parameters<typeof workspacePolicy>[1];

beforeEach(async () => {
  workspace = realpathSync(mkdtempSync(join(tmpdir(), 'sandbox-pool-')));
  mkdirSync(join(workspace, '.git'));
  more = {};
  spawner = new NativeSpawner(loadLibc());
  prebuilt = [];
  beforeBuild = () => {};
  mountsChanged = false;
  const calls = {
    ...spawner.sandboxCalls,
    hasChanged: (fd: number) => spawner.sandboxCalls.hasChanged(fd) || mountsChanged,
  };
  sandboxes = new SandboxPool(async (spec) => {
    beforeBuild();
    const child = await spawner.spawn(spec);
    prebuilt.push(child);
    return child;
  }, calls);
  builder = newSandboxBuilder(spawner, spawner.sandboxCalls, sandboxes);
  // The first start makes the plan and opens descriptors that stay open.
  await runToEnd(shell('true'));
  descriptors = openDescriptors();
});

afterEach(async () => {
  await builder.close();
  expect(prebuilt.filter(({ pid }) => isAlive(pid))).toEqual([]);
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

/** Runs a program until it exits. Returns its output and the pid of its bwrap. */
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

const idle = () => prebuilt.filter(({ pid }) => isAlive(pid)).map(({ pid }) => pid);
const isReady = (count: number) => waitFor('a pre-built sandbox', () => prebuilt.length === count);

/** Waits for one pre-built sandbox for programs without stdin. Returns its pid. */
async function withPrebuilt(): Promise<number> {
  await runToEnd(shell('true'));
  await isReady(1);
  return prebuilt[0]!.pid;
}

describe('a pre-built sandbox', () => {
  test('is built after the second use of a policy', async () => {
    expect(prebuilt).toEqual([]);
    const waitingPid = await withPrebuilt();
    expect(idle()).toEqual([waitingPid]);
  });

  test('leaves no placeholder in the workspace while it waits', async () => {
    await withPrebuilt();
    expect(readdirSync(workspace)).toEqual(['.git']);
  });

  test('runs the next program with the same restrictions', async () => {
    const waitingPid = await withPrebuilt();
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
    expect(pid).toBe(waitingPid);
    expect(output.match(/Read-only file system/g)).toHaveLength(5);
    expect(output).toBe(other.output);
    expect(output.startsWith(`/bin/sh  ${workspace}\n`)).toBe(true);
    await sandboxes.close();
  });

  test('is replaced by another after its use', async () => {
    await withPrebuilt();
    await runToEnd(shell('true'));
    await isReady(2);
    expect(idle()).toEqual([prebuilt[1]!.pid]);
  });

  test('is not used when a protected name was created since', async () => {
    const waitingPid = await withPrebuilt();
    mkdirSync(join(workspace, '.codex'));
    writeFileSync(join(workspace, '.codex', 'mine'), '');
    const { output, pid } = await runToEnd(shell('cat .codex/mine; touch .codex/x .git/x 2>&1'));
    expect(pid).not.toBe(waitingPid);
    expect(output.match(/Read-only file system/g)).toHaveLength(2);
    await waitFor('its end', () => !isAlive(waitingPid));
    rmSync(join(workspace, '.codex'), { recursive: true });
  });

  test('is not used when a mounted directory was replaced', async () => {
    const waitingPid = await withPrebuilt();
    renameSync(join(workspace, '.git'), join(workspace, 'old'));
    mkdirSync(join(workspace, '.git'));
    const { output, pid } = await runToEnd(shell('touch .git/x 2>&1; rmdir old; ls'));
    expect(pid).not.toBe(waitingPid);
    expect(output).toMatch(/^[^\n]*Read-only file system\n$/);
  });

  test('is not used when the workspace was created again', async () => {
    const waitingPid = await withPrebuilt();
    rmSync(workspace, { recursive: true });
    mkdirSync(join(workspace, '.git'), { recursive: true });
    const { output, pid } = await runToEnd(shell('touch .git/x 2>&1; touch here; ls; rm here'));
    expect(pid).not.toBe(waitingPid);
    expect(output).toMatch(/Read-only file system\nhere\n$/);
  });

  test('is not used after a mount or unmount', async () => {
    const waitingPid = await withPrebuilt();
    mountsChanged = true;
    expect((await runToEnd(shell('true'))).pid).not.toBe(waitingPid);
    await waitFor('its end', () => !isAlive(waitingPid));
  });

  test('is used for its own policy only', async () => {
    const other = realpathSync(mkdtempSync(join(tmpdir(), 'sandbox-pool-')));
    await runToEnd(shell('true'), other);
    const waitingPid = await withPrebuilt();
    const script = `touch mine; ls; touch ${workspace}/yours ${workspace}/.git/yours .git/yours 2>&1; pwd`;
    const { output, pid } = await runToEnd(shell(script), other);
    expect(pid).not.toBe(waitingPid);
    expect(output).toMatch(/^mine\n(.*Read-only file system\n){3}/);
    expect(output.endsWith(`\n${other}\n`)).toBe(true);
    expect(readdirSync(other)).toEqual(['mine']);
    rmSync(other, { recursive: true });
  });

  describe('with denied files', () => {
    let secret: string;
    let folder: string;

    beforeEach(async () => {
      [secret, folder] = [join(workspace, 'secret'), join(workspace, 'denied')];
      writeFileSync(secret, 'secret');
      mkdirSync(folder);
      writeFileSync(join(folder, 'inner'), 'secret');
      more = { [secret]: 'deny', [folder]: 'deny' };
      await runToEnd(shell('true'));
    });

    afterEach(() => {
      rmSync(secret, { force: true, recursive: true });
      rmSync(folder, { force: true, recursive: true });
    });

    const script = 'cat secret denied/inner; ls denied; echo over';

    test('keeps them denied', async () => {
      const waitingPid = await withPrebuilt();
      const { output, pid } = await runToEnd(shell(script));
      expect([output, pid]).toEqual(['over\n', waitingPid]);
    });

    test('is not used when a denied file was replaced', async () => {
      const waitingPid = await withPrebuilt();
      writeFileSync(join(workspace, 'new'), 'secret');
      renameSync(join(workspace, 'new'), secret);
      const { output, pid } = await runToEnd(shell(script));
      expect(output).toBe('over\n');
      expect(pid).not.toBe(waitingPid);
    });

    test.each([
      ['file', () => secret],
      ['directory', () => folder],
    ])('does not create a %s that was removed since', async (_, path) => {
      const waitingPid = await withPrebuilt();
      rmSync(path(), { recursive: true });
      expect((await runToEnd(shell('echo fine'))).output).toBe('fine\n');
      await waitFor('its end', () => !isAlive(waitingPid));
      expect(existsSync(path())).toBe(false);
    });

    test('starts nothing when the files change at each attempt', async () => {
      await withPrebuilt();
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

    test('is not pre-built when a denied file is missing', async () => {
      rmSync(secret);
      for (const word of ['one', 'two', 'three'])
        expect((await runToEnd(shell(`echo ${word}`))).output).toBe(`${word}\n`);
      expect(prebuilt).toEqual([]);
      expect(existsSync(secret)).toBe(false);
    });
  });

  test('executes nothing when its pipe is closed', async () => {
    const take = vi.spyOn(sandboxes, 'take');
    await withPrebuilt();
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

  test('is not built again after MAX_PREBUILD_FAILURES', async () => {
    for (let failure = 1; failure <= MAX_PREBUILD_FAILURES; failure++) {
      await runToEnd(shell('true'));
      await isReady(failure);
      process.kill(prebuilt.at(-1)!.pid, 'SIGKILL');
      await waitFor('all of it to be closed', () => openDescriptors() === descriptors);
    }
    expect((await runToEnd(shell('echo fine'))).output).toBe('fine\n');
    expect((await runToEnd(shell('echo fine'))).output).toBe('fine\n');
    expect(prebuilt).toHaveLength(MAX_PREBUILD_FAILURES);
  });

  test('resets the failure count when it is used', async () => {
    let built = 0;
    for (let failure = 1; failure <= MAX_PREBUILD_FAILURES + 1; failure++) {
      await runToEnd(shell('true'));
      await isReady(++built);
      const { pid } = prebuilt.at(-1)!;
      expect((await runToEnd(shell('true'))).pid).toBe(pid);
      await isReady(++built);
      process.kill(prebuilt.at(-1)!.pid, 'SIGKILL');
      await waitFor('all of it to be closed', () => openDescriptors() === descriptors);
    }
  });

  test.each([
    ['with an input', INPUT],
    ['on a terminal', TERMINAL],
  ])('is not used for a program %s', async (_, io) => {
    const waitingPid = await withPrebuilt();
    const { output, pid } = await runToEnd(shell('echo fine', io));
    expect(output).toMatch(/^fine/);
    expect(pid).not.toBe(waitingPid);
    expect(isAlive(waitingPid)).toBe(true);
  });

  test('is not used for a program with a resource limit', async () => {
    const waitingPid = await withPrebuilt();
    const limited = { ...shell('true'), resources: { memoryBytes: 1e9, pids: null, cpuPercent: null } };
    expect((await runToEnd(limited)).pid).not.toBe(waitingPid);
    expect(isAlive(waitingPid)).toBe(true);
  });

  test('contains no data of the program that it was built after', async () => {
    const secret = shell('true');
    await runToEnd({ ...secret, env: { SECRET: 'for-this-one-only' } });
    await isReady(1);
    for (const file of ['cmdline', 'environ', 'maps']) {
      expect(readFileSync(`/proc/${prebuilt[0]!.pid}/${file}`, 'latin1')).not.toContain('for-this-one-only');
    }
  });

  test('ends after POOLED_SANDBOX_IDLE_MS', async () => {
    const timers = vi.spyOn(globalThis, 'setTimeout');
    await withPrebuilt();
    const [expire] = timers.mock.calls.find(([, ms]) => ms === POOLED_SANDBOX_IDLE_MS)!;
    timers.mockRestore();
    expect(idle()).toHaveLength(1);
    expire();
    await waitFor('its end', () => idle().length === 0);
    expect((await runToEnd(shell('echo fine'))).output).toBe('fine\n');
  });

  test('is not used after it was killed, even before its exit is reported', async () => {
    const waitingPid = await withPrebuilt();
    process.kill(waitingPid, 'SIGKILL');
    // Blocks the event loop, so that the exit is not reported.
    for (const endMs = performance.now() + 10_000; !spawner.sandboxCalls.hasExited(waitingPid); )
      expect(performance.now()).toBeLessThan(endMs);
    const { output, pid } = await runToEnd(shell('echo fine'));
    expect(output).toBe('fine\n');
    expect(pid).not.toBe(waitingPid);
  });

  test('ends when the start that took it is cancelled', async () => {
    const waitingPid = await withPrebuilt();
    const cancel = new AbortController();
    const started = start(shell('echo never'), cancel.signal);
    const failed = vi.spyOn(sandboxes, 'noteFailure');
    cancel.abort();
    await expect(started).rejects.toThrow();
    await waitFor('its end', () => !isAlive(waitingPid));
    expect(failed).not.toHaveBeenCalled();
  });

  test('does not count as failed when a cancelled start has sent its instructions', async () => {
    const waitingPid = await withPrebuilt();
    const cancel = new AbortController();
    const failed = vi.spyOn(sandboxes, 'noteFailure');
    const send = vi.spyOn(Instructions.prototype, 'send').mockImplementationOnce(async () => cancel.abort());
    await expect(start(shell('echo never'), cancel.signal)).rejects.toThrow();
    await waitFor('its end', () => !isAlive(waitingPid));
    send.mockRestore();
    expect(failed).not.toHaveBeenCalled();
  });

  test('does not fail the program when it cannot be started', async () => {
    beforeBuild = () => {
      throw new Error('no more processes');
    };
    for (const word of ['one', 'two', 'three']) {
      expect((await runToEnd(shell(`echo ${word}`))).output).toBe(`${word}\n`);
    }
  });
});
