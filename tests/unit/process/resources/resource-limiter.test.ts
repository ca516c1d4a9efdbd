import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { loadLibc } from '../../../../src/native/libc.ts';
import { ControlGroups } from '../../../../src/process/resources/control-groups.ts';
import { ResourceLimiter } from '../../../../src/process/resources/resource-limiter.ts';
import { createSpawner } from '../../../../src/process/spawn/create-spawner.ts';
import type { ExitStatus, Spawner, SpawnSpec } from '../../../../src/process/spawn/spawner.ts';

const noGroups = () => ({ unavailableReason: 'no groups here' });
const NOTHING = { memoryBytes: null, pids: null, cpuPercent: null };
const MIB = 1024 * 1024;
const RLIMIT_DATA = 2;
let spawner: Spawner | null = null;

afterEach(async () => {
  await spawner?.close();
  spawner = null;
});

async function run(spec: Partial<SpawnSpec>): Promise<{ status: ExitStatus; output: string }> {
  spawner ??= await createSpawner();
  const child = await spawner.spawn({
    program: '/bin/sh',
    argv: [],
    cwd: '/',
    env: { PATH: process.env.PATH ?? '' },
    io: { kind: 'pipe', stdin: 'open' },
    ...spec,
  });
  // The scripts wait for this line; the limits apply by then.
  child.stdin?.write(Buffer.from('go\n'), () => {});
  let output = '';
  const ends = child.outputs.map(
    (source) =>
      new Promise<void>((resolve) => {
        source.listen((bytes) => {
          output += bytes.toString();
        }, resolve);
        source.resume();
      }),
  );
  const status = await new Promise<ExitStatus>((resolve) => child.onExit(resolve));
  await Promise.all(ends);
  child.release();
  return { status, output };
}

const shell = (script: string) => ({ program: '/bin/sh', argv: ['sh', '-c', script] });
/** The private memory limits of a process and of its child. */
const SHOW_LIMITS =
  'read go; grep "Max data size" /proc/self/limits; sh -c \'grep "Max data size" /proc/self/limits\'';

test('does nothing without limits', () => {
  const limiter = new ResourceLimiter({ lowerLimit: () => false }, () => null);
  expect(limiter.prepare(undefined)).toBeNull();
  expect(limiter.prepare(NOTHING)).toBeNull();
});

test('limits the memory of each process without control groups, and rejects other limits', () => {
  const limited: [number, bigint][] = [];
  const libc = { lowerLimit: (pid: number, _: number, bytes: bigint) => limited.push([pid, bytes]) > 0 };
  const limiter = new ResourceLimiter(libc, (pid) => (pid === process.pid ? 5n : null), noGroups);
  const appliedLimits = limiter.prepare({ ...NOTHING, memoryBytes: MIB })?.apply({ pid: 1, tag: 5n });
  expect(limited).toEqual([
    [1, BigInt(MIB)],
    [process.pid, BigInt(MIB)],
  ]);
  expect(appliedLimits?.outOfMemory()).toBe(false);
  expect(() => limiter.prepare({ ...NOTHING, pids: 3 })).toThrow(/no groups here/);
  expect(() => limiter.prepare({ ...NOTHING, memoryBytes: MIB, cpuPercent: 50 })).toThrow(/no groups here/);
});

test('denies a program more memory than its limit', async () => {
  const script = 'read go; exec dd if=/dev/zero of=/dev/null bs=200M count=1';
  const free = await run(shell(script));
  expect(free.status).toEqual({ code: 0, signal: null });
  const limited = await run({ ...shell(script), resources: { ...NOTHING, memoryBytes: 64 * MIB } });
  expect(limited.status).toEqual({ code: 1, signal: null });
  expect(limited.output).toContain('memory exhausted');
});

test('applies the limit to children, including those from before it was set', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'limiter-'));
  try {
    const file = join(folder, 'early');
    const fifo = join(folder, 'fifo');
    // The subshell may exist before the limits do; it reads them after the program continues.
    const early = `mkfifo ${fifo}; ( cat ${fifo}; cat /proc/self/limits > ${file} ) & ${SHOW_LIMITS}; echo > ${fifo}; wait`;
    const { output } = await run({ ...shell(early), resources: { ...NOTHING, memoryBytes: 64 * MIB } });
    const shown = [...output.split('\n'), readFileSync(file, 'utf8')].filter((line) =>
      line.includes('Max data'),
    );
    expect(shown).toHaveLength(3);
    for (const line of shown) expect(line).toMatch(/Max data size +67108864 +67108864/);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

// Otherwise a program that keeps starting others would keep the server scanning.
test('does not report a process that already has the limit as new', async () => {
  const sleeper = spawn('sleep', ['1000']);
  const ended = once(sleeper, 'exit');
  try {
    const lower = (bytes: number) => loadLibc().lowerLimit(sleeper.pid!, RLIMIT_DATA, BigInt(bytes));
    expect([lower(64 * MIB), lower(64 * MIB), lower(65 * MIB), lower(63 * MIB)]).toEqual([
      true,
      false,
      false,
      true,
    ]);
  } finally {
    sleeper.kill('SIGKILL');
    await ended;
  }
});

test('kills a program and its children when the limit cannot be set', async () => {
  const program = spawn('sleep', ['1000']);
  const started = spawn('sleep', ['1000']);
  const bystander = spawn('sleep', ['1000']);
  const ends = [program, started, bystander].map((child) => once(child, 'exit'));
  try {
    // The system's answer for a program that changed its user.
    const libc = { lowerLimit: () => false };
    const limiter = new ResourceLimiter(libc, (pid) => (pid === started.pid ? 5n : null), noGroups);
    limiter.prepare({ ...NOTHING, memoryBytes: MIB })?.apply({ pid: program.pid!, tag: 5n });
    expect(await Promise.all(ends.slice(0, 2))).toEqual([
      [null, 'SIGKILL'],
      [null, 'SIGKILL'],
    ]);
    expect(bystander.exitCode).toBeNull();
  } finally {
    for (const child of [program, started, bystander]) child.kill('SIGKILL');
    await Promise.all(ends);
  }
});

test('ignores a program that is gone or already has a lower limit', async () => {
  const sleeper = spawn('sh', ['-c', 'ulimit -d 1000; echo; exec sleep 1000']);
  const ended = once(sleeper, 'exit');
  try {
    await once(sleeper.stdout, 'data');
    const limiter = new ResourceLimiter({ lowerLimit: () => false }, () => null, noGroups);
    const limits = limiter.prepare({ ...NOTHING, memoryBytes: MIB });
    limits?.apply({ pid: sleeper.pid!, tag: null });
    limits?.apply({ pid: 2 ** 22 + 1, tag: null });
    sleeper.kill('SIGTERM');
    expect(await ended).toEqual([null, 'SIGTERM']);
  } finally {
    sleeper.kill('SIGKILL');
    await ended;
  }
});

test('kills a program that cannot be added to its group', async () => {
  const home = mkdtempSync(join(tmpdir(), 'limiter-'));
  const program = spawn('sleep', ['1000']);
  const ended = once(program, 'exit');
  try {
    writeFileSync(join(home, 'cgroup.subtree_control'), 'pids');
    const limiter = new ResourceLimiter(
      { lowerLimit: () => false },
      () => null,
      () => new ControlGroups(home),
    );
    const limits = limiter.prepare({ ...NOTHING, pids: 1 });
    rmSync(join(home, `exec-server-${process.pid}-1`), { recursive: true });
    limits?.apply({ pid: program.pid!, tag: null });
    expect(await ended).toEqual([null, 'SIGKILL']);
  } finally {
    program.kill('SIGKILL');
    await ended;
    rmSync(home, { recursive: true });
  }
});

test('rejects limits without the native spawner and starts nothing', async () => {
  spawner = await createSpawner({ native: false });
  await expect(run({ ...shell('true'), resources: { ...NOTHING, memoryBytes: MIB } })).rejects.toMatchObject({
    code: 'limitUnavailable',
  });
});
