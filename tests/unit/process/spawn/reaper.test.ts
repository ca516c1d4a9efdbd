import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { loadLibc } from '../../../../src/native/libc.ts';
import { Reaper } from '../../../../src/process/spawn/reaper.ts';
import type { ExitStatus } from '../../../../src/process/spawn/spawner.ts';
import { childPids } from '../../../support/children.ts';
import { waitFor } from '../../../support/wait-for.ts';

const libc = loadLibc();
let reaper: Reaper;

beforeEach(() => {
  reaper = new Reaper(libc, () => false);
});

afterEach(() => {
  reaper.close();
  expect(childPids()).toEqual([]);
});

function start(script: string): number {
  const nothing = { open: '/dev/null', flags: 2 };
  const stdio = [nothing, nothing, nothing] as const;
  return libc.spawn({
    path: '/bin/sh',
    argv: ['sh', '-c', script],
    env: ['PATH=/usr/bin:/bin'],
    cwd: '/',
    stdio,
  });
}

function watch(pid: number): Promise<ExitStatus> {
  return new Promise((resolve) => reaper.watch(pid, resolve, { keepsLoopAlive: true }));
}

test('reports how each child ended', async () => {
  expect(await watch(start('exit 0'))).toEqual({ code: 0, signal: null });
  expect(await watch(start('exit 255'))).toEqual({ code: 255, signal: null });
  expect(await watch(start('kill -TERM $$'))).toEqual({ code: null, signal: 15 });
});

test('reaps a child that exits before it is watched', async () => {
  const pid = start('exit 5');
  await waitForZombie(pid);
  expect(await watch(pid)).toEqual({ code: 5, signal: null });
});

test('knows that a child has exited before and after it is reaped, but not while it runs', async () => {
  const [gone, alive] = [start('exit 5'), start('exec sleep 100')];
  await waitForZombie(gone);
  expect([libc.hasExited(gone), libc.hasExited(alive)]).toEqual([true, false]);
  await watch(gone);
  expect(libc.hasExited(gone)).toBe(true);
  process.kill(alive, 'SIGKILL');
  await watch(alive);
});

test('reaps 200 children and leaves 50 of libuv to libuv', async () => {
  const foreign = Array.from({ length: 50 }, (_, index) => spawn('/bin/sh', ['-c', `exit ${index}`]));
  const foreignCodes = Promise.all(foreign.map(async (child) => (await once(child, 'exit'))[0]));
  const own = Array.from({ length: 200 }, (_, index) => watch(start(`exit ${index}`)));
  expect((await Promise.all(own)).map(({ code }) => code)).toEqual(own.map((_, index) => index));
  expect(await foreignCodes).toEqual(foreign.map((_, index) => index));
});

test('works past a foreign child that is never reaped, and does not reap it', async () => {
  const foreign = start('exit 1');
  await waitForZombie(foreign);
  expect(await watch(start('exit 2'))).toEqual({ code: 2, signal: null });
  expect(libc.reap(foreign)).toEqual({ code: 1, signal: null });
});

test('keeps the children of two reapers in one process apart', async () => {
  const second = new Reaper(libc, () => false);
  const statuses = [watch(start('exit 1')), watch(start('exit 2'))];
  const other = new Promise<ExitStatus>((resolve) =>
    second.watch(start('exit 3'), resolve, { keepsLoopAlive: false }),
  );
  expect((await Promise.all([...statuses, other])).map(({ code }) => code)).toEqual([1, 2, 3]);
  second.close();
});

test.runIf(process.getuid?.() === 0)('as pid 1 it collects the orphans of its programs', async () => {
  const fixture = join(import.meta.dirname, '../../../fixtures/orphans.mjs');
  const args = ['--pid', '--fork', '--mount-proc', process.execPath, fixture];
  const { stdout } = await promisify(execFile)('unshare', args);
  expect(stdout).toBe('all collected\n');
});

test('keeps the process alive while a child runs, and no longer', async () => {
  const fixture = join(import.meta.dirname, '../../../fixtures/one-child.mjs');
  const { stdout } = await promisify(execFile)(process.execPath, [fixture]);
  expect(stdout).toBe('exited 7\n');
});

async function waitForZombie(pid: number): Promise<void> {
  await waitFor('a zombie', () => libc.findExitedChild() === pid);
}

test('keeps the event loop alive only for children that ask for it', async () => {
  const timers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
  // Timers of earlier tests may still run, and would end in between.
  while (timers() > 0) await new Promise(setImmediate);
  const [first, second] = [start('sleep 60'), start('sleep 60')];
  const ends = [watch(first), watch(second)];
  expect(timers()).toBe(1);
  reaper.keepLoopAlive(first, false);
  reaper.keepLoopAlive(first, false);
  expect(timers()).toBe(1);
  reaper.keepLoopAlive(second, false);
  expect(timers()).toBe(0);
  reaper.keepLoopAlive(second, true);
  expect(timers()).toBe(1);
  for (const pid of [first, second]) process.kill(-pid, 'SIGKILL');
  await Promise.all(ends);
  expect(timers()).toBe(0);
  reaper.keepLoopAlive(second, true);
  expect(timers()).toBe(0);
});
