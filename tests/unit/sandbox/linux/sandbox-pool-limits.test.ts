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
/** All pre-built sandboxes, dead or alive: programs instead of bwrap, which wait like it. */
let prebuilt: Child[];
let isSlow: boolean;
/** Each call completes a slow start. */
let gates: (() => void)[];
let descriptors: number;

beforeEach(async () => {
  spawner = new NativeSpawner(loadLibc());
  // The first start opens descriptors that stay open.
  const first = await spawner.spawn(shell('true', NO_INPUT));
  await first.killTree();
  first.release();
  for (const source of first.outputs) source.destroy();
  [prebuilt, gates, isSlow] = [[], [], false];
  sandboxes = new SandboxPool(async (spec) => {
    if (isSlow) await new Promise<void>((resolve) => gates.push(resolve));
    const child = await spawner.spawn(spec);
    prebuilt.push(child);
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

const idle = () => prebuilt.filter(({ pid }) => isAlive(pid)).map(({ pid }) => pid);
const isReady = (count: number) => waitFor('a pre-built sandbox', () => prebuilt.length === count);

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

test('a sandbox that is evicted during its start ends and does not replace a newer one', async () => {
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
  expect(idle()).toContain(prebuilt[MAX_POOLED_SANDBOXES]!.pid);
  await sandboxes.close();
  expect(idle()).toEqual([]);
});

test('keeps one sandbox per plan and key, and evicts the oldest', async () => {
  const plans = Array.from({ length: MAX_POOLED_SANDBOXES }, planOf);
  const wanted = [...plans.map((plan) => [plan, 'kind'] as const), [plans[0]!, 'other'] as const];
  for (const [index, [plan, kind]] of wanted.entries()) {
    sandboxes.prebuild(plan, kind, specOf);
    sandboxes.prebuild(plan, kind, specOf);
    await isReady(index + 1);
  }
  await waitFor('the others to end', () => idle().length === MAX_POOLED_SANDBOXES);
  expect(idle()).toEqual(prebuilt.slice(-MAX_POOLED_SANDBOXES).map(({ pid }) => pid));
  expect(sandboxes.take(plans[0]!, 'kind')).toBeNull();
});

test('close ends all sandboxes', async () => {
  sandboxes.prebuild(planOf(), 'late', () => shell('true'));
  await sandboxes.close();
  sandboxes.prebuild(planOf(), 'later', () => shell('true'));
  await new Promise(setImmediate);
  expect(prebuilt).toEqual([]);
});
