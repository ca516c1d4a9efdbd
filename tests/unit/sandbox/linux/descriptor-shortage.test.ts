import { mkdtempSync, readdirSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { loadLibc } from '../../../../src/native/libc.ts';
import { NativeSpawner } from '../../../../src/process/spawn/native-spawner.ts';
import type { ChildIo } from '../../../../src/process/spawn/spawner.ts';
import { discardChild, releaseSandbox, startProgram } from '../../../../src/process/start-program.ts';
import { childPids, INPUT, openDescriptors, shell, TERMINAL } from '../../../support/children.ts';
import { withFreeDescriptors } from '../../../support/descriptor-limit.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { newSandboxBuilder, PROTECTED_NAMES, workspacePolicy } from './sandboxed-programs.ts';

const spawner = new NativeSpawner(loadLibc());
const folder = realpathSync(mkdtempSync(join(tmpdir(), 'shortage-')));

afterAll(async () => {
  await spawner.close();
  rmSync(folder, { recursive: true });
});

/** More than enough for one start: pipes, terminal, memory files, reports and placeholders. */
const ENOUGH = 32;

test.each<[string, ChildIo, boolean]>([
  ['pipes, first start', INPUT, false],
  ['pipes, plan from the cache', INPUT, true],
  ['a terminal, plan from the cache', TERMINAL, true],
])('a start that runs out of descriptors leaves nothing (%s)', async (_, io, cached) => {
  const policy = workspacePolicy(folder);
  const { signal } = new AbortController();
  const spec = { ...shell('exit 0', io), cwd: folder };
  let builder = newSandboxBuilder(spawner);
  const start = () =>
    startProgram(spec, (asked) => builder.wrapProgram(asked, policy, 'restricted', signal), spawner, signal);
  const run = async () => {
    const { child, launch } = await start();
    expect(readdirSync(folder).sort()).toEqual(PROTECTED_NAMES);
    await discardChild(child);
    await releaseSandbox(launch!);
  };
  // Loads what is loaded only once.
  await run();
  // The first program may not be reaped yet.
  const processes = new Set(childPids());
  let before = 0;
  await waitFor('all descriptors to be closed', () => {
    const stable = before === openDescriptors();
    before = openDescriptors();
    return stable;
  });
  const outcomes: string[] = [];
  for (let free = 0; free <= ENOUGH; free++) {
    if (!cached) builder = newSandboxBuilder(spawner);
    const outcome = await withFreeDescriptors(free, () =>
      start().then(
        (started) => started,
        (error: Error) => error,
      ),
    );
    outcomes.push(outcome instanceof Error ? 'refused' : 'started');
    if (!(outcome instanceof Error)) {
      await discardChild(outcome.child);
      await releaseSandbox(outcome.launch!);
    }
    // The cleanup of a failed start may run in the background.
    await waitFor('the placeholders to go', () => readdirSync(folder).length === 0);
    await waitFor('all descriptors to be closed', () => openDescriptors() === before);
    await waitFor('all processes to be reaped', () => childPids().every((pid) => processes.has(pid)));
  }
  expect(outcomes[0]).toBe('refused');
  expect(outcomes.at(-1)).toBe('started');
});
