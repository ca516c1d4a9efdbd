import { mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { loadLibc } from '../../../../src/native/libc.ts';
import { NativeSpawner } from '../../../../src/process/spawn/native-spawner.ts';
import type { Child, SpawnSpec } from '../../../../src/process/spawn/spawner.ts';
import { startProgram } from '../../../../src/process/start-program.ts';
import type { LinuxEncloser } from '../../../../src/sandbox/linux/enclose.ts';
import { SPARE_BWRAPS, SPARE_IDLE_MS } from '../../../../src/sandbox/linux/limits.ts';
import { SpareBwraps } from '../../../../src/sandbox/linux/spare-bwraps.ts';
import {
  childPids,
  INPUT,
  isAlive,
  NO_INPUT,
  openDescriptors,
  record,
  shell,
  TERMINAL,
} from '../../../support/children.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { newEncloser, removedAreClosed, workspacePolicy } from './enclosed-programs.ts';

let workspace: string;
let spawner: NativeSpawner;
let spares: SpareBwraps;
let encloser: LinuxEncloser;
/** Every bwrap that was started in reserve, dead or alive. */
let reserve: Child[];
let descriptors: number;

beforeEach(async () => {
  workspace = realpathSync(mkdtempSync(join(tmpdir(), 'spare-bwraps-')));
  mkdirSync(join(workspace, '.git'));
  spawner = new NativeSpawner(loadLibc());
  reserve = [];
  spares = new SpareBwraps(async (spec) => {
    const child = await spawner.spawn(spec);
    reserve.push(child);
    return child;
  }, spawner.enclosing);
  encloser = newEncloser(spawner, spawner.enclosing, spares);
  // The first one has its plan made, and loads what stays open.
  await runToEnd(shell('true'));
  descriptors = openDescriptors();
});

afterEach(async () => {
  await encloser.close();
  expect(reserve.filter(({ pid }) => isAlive(pid))).toEqual([]);
  await waitFor('every descriptor to be closed', () => openDescriptors() === descriptors);
  await spawner.close();
  expect(childPids()).toEqual([]);
  expect(readdirSync(workspace)).toEqual(['.git']);
  rmSync(workspace, { recursive: true });
});

async function start(spec: SpawnSpec, signal = new AbortController().signal, folder = workspace) {
  const inner = { ...spec, cwd: folder };
  const enclose = (asked: SpawnSpec) =>
    encloser.encloseProgram(asked, workspacePolicy(folder), 'restricted', signal);
  return await startProgram(inner, enclose, (wrapped) => spawner.spawn(wrapped), signal);
}

/** Runs a program to its end, and tells its output and the pid of the bwrap that it ran in. */
async function runToEnd(
  spec: SpawnSpec,
  folder = workspace,
): Promise<{ readonly output: string; readonly pid: number }> {
  const { child, enclosure } = await start(spec, undefined, folder);
  const transcript = record(child);
  if (spec.io.kind === 'pipe') child.stdin?.end();
  await Promise.all([transcript.exited, transcript.ended]);
  child.release();
  await child.allGone();
  await enclosure?.release?.();
  await removedAreClosed();
  return { output: transcript.text('stdout') + transcript.text('pty'), pid: child.pid };
}

const idle = () => reserve.filter(({ pid }) => isAlive(pid)).map(({ pid }) => pid);
const isReady = (count: number) => waitFor('a bwrap in reserve', () => reserve.length === count);

/** A reserve of one bwrap for programs without an input. */
async function withReserve(): Promise<number> {
  await runToEnd(shell('true'));
  await isReady(1);
  return reserve[0]!.pid;
}

describe('a bwrap in reserve', () => {
  test('is there for a policy that is used again, and none before', async () => {
    expect(reserve).toEqual([]);
    const spare = await withReserve();
    expect(idle()).toEqual([spare]);
  });

  test('runs the next program, as confined as every other', async () => {
    const spare = await withReserve();
    const { output, pid } = await runToEnd(
      shell('echo "$0 $A"; touch kept; rm kept; touch .git/x 2>&1; touch /x 2>&1; ls /proc/self/fd | wc -l'),
    );
    expect(pid).toBe(spare);
    expect(output).toMatch(/^\/bin\/sh \n.*\.git\/x.*Read-only.*\n.*\/x.*Read-only.*\n4\n$/);
    await isReady(2);
    expect(idle()).toEqual([reserve[1]!.pid]);
  });

  test('is told of the plan as it is now', async () => {
    const spare = await withReserve();
    mkdirSync(join(workspace, 'sub'));
    const { output, pid } = await runToEnd(shell('cd sub && touch .git/x ../.git/x 2>&1; pwd; rm -r ../sub'));
    expect(pid).toBe(spare);
    expect(output).toMatch(/Read-only/);
    expect(output).toMatch(/sub\n$/);
  });

  test('runs a program under another policy, and knows none but that', async () => {
    const other = realpathSync(mkdtempSync(join(tmpdir(), 'spare-bwraps-')));
    await runToEnd(shell('true'), other);
    const spare = await withReserve();
    const script = `touch mine; ls; touch ${workspace}/yours ${workspace}/.git/yours .git/yours 2>&1; pwd`;
    const { output, pid } = await runToEnd(shell(script), other);
    expect(pid).toBe(spare);
    expect(output).toMatch(/^mine\n(.*Read-only file system\n){3}/);
    expect(output.endsWith(`\n${other}\n`)).toBe(true);
    expect(readdirSync(other)).toEqual(['mine']);
    rmSync(other, { recursive: true });
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
      const content = readFileSync(`/proc/${reserve[0]!.pid}/${file}`, 'latin1');
      expect(content).not.toContain('for-this-one-only');
      expect(content).not.toContain(workspace);
    }
  });

  test('is ended when nobody needs it for a while', async () => {
    const timers = vi.spyOn(globalThis, 'setTimeout');
    await withReserve();
    const [expire] = timers.mock.calls.find(([, ms]) => ms === SPARE_IDLE_MS)!;
    timers.mockRestore();
    expect(idle()).toHaveLength(1);
    expire();
    await waitFor('its end', () => idle().length === 0);
    expect((await runToEnd(shell('echo fine'))).output).toBe('fine\n');
  });

  test('that has been killed is not used', async () => {
    const spare = await withReserve();
    process.kill(spare, 'SIGKILL');
    const { output, pid } = await runToEnd(shell('echo fine'));
    expect(output).toBe('fine\n');
    expect(pid).not.toBe(spare);
  });

  test('that ends by itself is forgotten', async () => {
    const spare = await withReserve();
    process.kill(spare, 'SIGKILL');
    await waitFor('all of it to be closed', () => openDescriptors() === descriptors);
    expect((await runToEnd(shell('echo fine'))).output).toBe('fine\n');
  });

  test('ends with the program whose start is given up', async () => {
    const spare = await withReserve();
    const giveUp = new AbortController();
    const started = start(shell('echo never'), giveUp.signal);
    giveUp.abort();
    await expect(started).rejects.toThrow();
    await waitFor('its end', () => !isAlive(spare));
  });

  test('that cannot be started is nobody’s failure', async () => {
    spares = new SpareBwraps(() => Promise.reject(new Error('no more processes')), spawner.enclosing);
    const unlucky = newEncloser(spawner, spawner.enclosing, spares);
    encloser = unlucky;
    for (const word of ['one', 'two', 'three']) {
      expect((await runToEnd(shell(`echo ${word}`))).output).toBe(`${word}\n`);
    }
  });
});

test('one that is given up while it is started ends, and leaves its place to the next of its kind', async () => {
  const specOf = (inherited: Parameters<Parameters<SpareBwraps['provide']>[1]>[0]): SpawnSpec => ({
    ...shell('cat <&3', NO_INPUT),
    inherited: [inherited.args],
  });
  const gates: (() => void)[] = [];
  let isSlow = true;
  spares = new SpareBwraps(async (spec) => {
    if (isSlow) await new Promise<void>((resolve) => gates.push(resolve));
    const child = await spawner.spawn(spec);
    reserve.push(child);
    return child;
  }, spawner.enclosing);
  spares.provide('slow', specOf);
  await waitFor('the first to be started', () => gates.length === 1);
  isSlow = false;
  for (let kind = 0; kind < SPARE_BWRAPS; kind++) spares.provide(`kind ${kind}`, specOf);
  await isReady(SPARE_BWRAPS);
  spares.provide('slow', specOf);
  await isReady(SPARE_BWRAPS + 1);
  gates[0]!();
  await isReady(SPARE_BWRAPS + 2);
  await waitFor('only the latest to be left', () => idle().length === SPARE_BWRAPS);
  expect(idle()).toContain(reserve[SPARE_BWRAPS]!.pid);
  await spares.close();
  expect(idle()).toEqual([]);
});

test('there is one of each kind, and only of the latest kinds', async () => {
  const specOf = (inherited: Parameters<Parameters<SpareBwraps['provide']>[1]>[0]): SpawnSpec => ({
    ...shell('cat <&3', NO_INPUT),
    inherited: [inherited.args],
  });
  const kinds = Array.from({ length: SPARE_BWRAPS + 2 }, (_, index) => `kind ${index}`);
  for (const [index, kind] of kinds.entries()) {
    spares.provide(kind, specOf);
    spares.provide(kind, specOf);
    await isReady(index + 1);
  }
  await waitFor('the others to end', () => idle().length === SPARE_BWRAPS);
  expect(idle()).toEqual(reserve.slice(-SPARE_BWRAPS).map(({ pid }) => pid));
  expect(spares.take(kinds[0]!)).toBeNull();
});

test('none is started when it is over', async () => {
  spares.provide('late', () => shell('true'));
  await spares.close();
  spares.provide('later', () => shell('true'));
  await new Promise(setImmediate);
  expect(reserve).toEqual([]);
});
