import { afterEach, beforeEach, expect, test } from 'vitest';
import { loadLibc } from '../../../../src/native/libc.ts';
import { NativeSpawner } from '../../../../src/process/spawn/native-spawner.ts';
import type { Child, SpawnSpec } from '../../../../src/process/spawn/spawner.ts';
import { SANDBOXES_IN_RESERVE } from '../../../../src/sandbox/linux/limits.ts';
import { SandboxReserve } from '../../../../src/sandbox/linux/reserve.ts';
import type { MountPlan } from '../../../../src/sandbox/mounts/mount-plan.ts';
import { childPids, isAlive, NO_INPUT, openDescriptors, shell } from '../../../support/children.ts';
import { waitFor } from '../../../support/wait-for.ts';

let spawner: NativeSpawner;
let sandboxes: SandboxReserve;
/** Everything that was started in reserve, dead or alive: programs in place of bwrap, which wait as it does. */
let reserve: Child[];
let isSlow: boolean;
/** Each lets a slow one be started. */
let gates: (() => void)[];
let descriptors: number;

beforeEach(async () => {
  spawner = new NativeSpawner(loadLibc());
  // What stays open is loaded with the first.
  const first = await spawner.spawn(shell('true', NO_INPUT));
  await first.killTree();
  first.release();
  for (const source of first.outputs) source.destroy();
  [reserve, gates, isSlow] = [[], [], false];
  sandboxes = new SandboxReserve(async (spec) => {
    if (isSlow) await new Promise<void>((resolve) => gates.push(resolve));
    const child = await spawner.spawn(spec);
    reserve.push(child);
    return child;
  }, spawner.sandboxCalls);
  descriptors = openDescriptors();
});

afterEach(async () => {
  await sandboxes.close();
  expect(idle()).toEqual([]);
  await waitFor('every descriptor to be closed', () => openDescriptors() <= descriptors);
  await spawner.close();
  expect(childPids()).toEqual([]);
});

const idle = () => reserve.filter(({ pid }) => isAlive(pid)).map(({ pid }) => pid);
const isReady = (count: number) => waitFor('a sandbox in reserve', () => reserve.length === count);

const planOf = (): MountPlan => ({
  steps: [],
  mounted: [],
  placeholders: [],
  missing: [],
  fingerprint: '',
  observed: { paths: [], globs: [] },
});
const specOf = ({ pipe }: Parameters<Parameters<SandboxReserve['provide']>[2]>[0]): SpawnSpec => ({
  ...shell('cat <&3', NO_INPUT),
  inherited: [pipe],
});

test('one that is given up while it is started ends, and leaves its place to the next like it', async () => {
  isSlow = true;
  const slow = planOf();
  sandboxes.provide(slow, 'kind', specOf);
  await waitFor('the first to be started', () => gates.length === 1);
  isSlow = false;
  for (let count = 0; count < SANDBOXES_IN_RESERVE; count++) sandboxes.provide(planOf(), 'kind', specOf);
  await isReady(SANDBOXES_IN_RESERVE);
  sandboxes.provide(slow, 'kind', specOf);
  await isReady(SANDBOXES_IN_RESERVE + 1);
  gates[0]!();
  await isReady(SANDBOXES_IN_RESERVE + 2);
  await waitFor('only the latest to be left', () => idle().length === SANDBOXES_IN_RESERVE);
  expect(idle()).toContain(reserve[SANDBOXES_IN_RESERVE]!.pid);
  await sandboxes.close();
  expect(idle()).toEqual([]);
});

test('there is one for each plan and kind, and only the latest', async () => {
  const plans = Array.from({ length: SANDBOXES_IN_RESERVE }, planOf);
  const wanted = [...plans.map((plan) => [plan, 'kind'] as const), [plans[0]!, 'other'] as const];
  for (const [index, [plan, kind]] of wanted.entries()) {
    sandboxes.provide(plan, kind, specOf);
    sandboxes.provide(plan, kind, specOf);
    await isReady(index + 1);
  }
  await waitFor('the others to end', () => idle().length === SANDBOXES_IN_RESERVE);
  expect(idle()).toEqual(reserve.slice(-SANDBOXES_IN_RESERVE).map(({ pid }) => pid));
  expect(sandboxes.take(plans[0]!, 'kind')).toBeNull();
});

test('there is none any more when it is over', async () => {
  sandboxes.provide(planOf(), 'late', () => shell('true'));
  await sandboxes.close();
  sandboxes.provide(planOf(), 'later', () => shell('true'));
  await new Promise(setImmediate);
  expect(reserve).toEqual([]);
});
