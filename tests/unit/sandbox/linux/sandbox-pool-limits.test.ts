import { afterEach, beforeEach, expect, test } from 'vitest';
import { loadLibc } from '../../../../src/native/libc.ts';
import { NativeSpawner } from '../../../../src/process/spawn/native-spawner.ts';
import type { Child, SpawnSpec } from '../../../../src/process/spawn/spawner.ts';
import { MAX_POOLED_SANDBOXES } from '../../../../src/sandbox/linux/limits.ts';
import { SandboxPool } from '../../../../src/sandbox/linux/sandbox-pool.ts';
import type { MountPlan } from '../../../../src/sandbox/mounts/mount-plan.ts';
import { childPids, isAlive, NO_INPUT, openDescriptors, shell } from '../../../support/children.ts';
import { waitFor } from '../../../support/wait-for.ts';

let spawner: NativeSpawner;
let sandboxes: SandboxPool;
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
  sandboxes = new SandboxPool(async (spec) => {
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
const specOf = ({ pipe }: Parameters<Parameters<SandboxPool['prebuild']>[2]>[0]): SpawnSpec => ({
  ...shell('cat <&3', NO_INPUT),
  inherited: [pipe],
});

test('one that is given up while it is started ends, and leaves its place to the next like it', async () => {
  isSlow = true;
  const slow = planOf();
  sandboxes.prebuild(slow, 'kind', specOf);
  await waitFor('the first to be started', () => gates.length === 1);
  isSlow = false;
  for (let count = 0; count < MAX_POOLED_SANDBOXES; count++) sandboxes.prebuild(planOf(), 'kind', specOf);
  await isReady(MAX_POOLED_SANDBOXES);
  sandboxes.prebuild(slow, 'kind', specOf);
  await isReady(MAX_POOLED_SANDBOXES + 1);
  gates[0]!();
  await isReady(MAX_POOLED_SANDBOXES + 2);
  await waitFor('only the latest to be left', () => idle().length === MAX_POOLED_SANDBOXES);
  expect(idle()).toContain(reserve[MAX_POOLED_SANDBOXES]!.pid);
  await sandboxes.close();
  expect(idle()).toEqual([]);
});

test('there is one for each plan and kind, and only the latest', async () => {
  const plans = Array.from({ length: MAX_POOLED_SANDBOXES }, planOf);
  const wanted = [...plans.map((plan) => [plan, 'kind'] as const), [plans[0]!, 'other'] as const];
  for (const [index, [plan, kind]] of wanted.entries()) {
    sandboxes.prebuild(plan, kind, specOf);
    sandboxes.prebuild(plan, kind, specOf);
    await isReady(index + 1);
  }
  await waitFor('the others to end', () => idle().length === MAX_POOLED_SANDBOXES);
  expect(idle()).toEqual(reserve.slice(-MAX_POOLED_SANDBOXES).map(({ pid }) => pid));
  expect(sandboxes.take(plans[0]!, 'kind')).toBeNull();
});

test('there is none any more when it is over', async () => {
  sandboxes.prebuild(planOf(), 'late', () => shell('true'));
  await sandboxes.close();
  sandboxes.prebuild(planOf(), 'later', () => shell('true'));
  await new Promise(setImmediate);
  expect(reserve).toEqual([]);
});
