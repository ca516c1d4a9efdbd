import { expect, test } from 'vitest';
import { BWRAP_MAX_ARGUMENTS, BWRAP_SPARE_ARGUMENTS } from '../../../../src/sandbox/limits.ts';
import { type BwrapOptions, bwrapArguments } from '../../../../src/sandbox/mounts/bwrap-arguments.ts';
import type { MountPlan, MountStep } from '../../../../src/sandbox/mounts/mount-plan.ts';
import { native } from '../native.ts';

function planOf(steps: readonly MountStep[]): MountPlan {
  return {
    steps,
    mounted: [],
    placeholders: [],
    missing: [],
    fingerprint: '',
    observed: { paths: [], globs: [] },
  };
}

function argumentsOf(steps: readonly MountStep[], options: Partial<BwrapOptions> = {}): string[] {
  let fd = 10;
  return bwrapArguments(planOf(steps), { isolateNetwork: true, cwd: null, emptyFd: () => fd++, ...options });
}

const path = native('/x y');

test.each<[MountStep, string]>([
  [{ kind: 'bind', path, writable: true }, '--bind|/x y|/x y'],
  [{ kind: 'bind', path, writable: false }, '--ro-bind|/x y|/x y'],
  [{ kind: 'emptyDirectory', path, mode: 0o555 }, '--perms|0555|--tmpfs|/x y'],
  [{ kind: 'seal', path }, '--remount-ro|/x y'],
  [{ kind: 'emptyFile', path, mode: 0 }, '--perms|0000|--ro-bind-data|10|/x y'],
  [{ kind: 'link', path, target: '../t' }, '--symlink|../t|/x y'],
  [{ kind: 'emptyRoot' }, '--tmpfs|/'],
  [{ kind: 'devices', sharedMemory: 'private' }, '--dev|/dev'],
  [{ kind: 'devices', sharedMemory: 'host' }, '--dev|/dev|--bind-try|/dev/shm|/dev/shm'],
])('%o', (step, expected) => {
  const [before, after] = [argumentsOf([]), argumentsOf([step])];
  const start = before.length - 2;
  expect(after.slice(start, after.length - 2).join('|')).toBe(expected);
  expect([...after.slice(0, start), ...after.slice(-2)]).toEqual(before);
});

test('the namespaces, and where the command starts', () => {
  const namespaces = '--unshare-user --unshare-pid --unshare-ipc --unshare-cgroup-try';
  expect(argumentsOf([]).join(' ')).toBe(
    `${namespaces} --unshare-net --die-with-parent --cap-drop ALL --chdir /`,
  );
  expect(argumentsOf([], { isolateNetwork: false, cwd: path }).join(' ')).toBe(
    `${namespaces} --die-with-parent --cap-drop ALL --chdir /x y`,
  );
});

test('every empty file has a descriptor of its own', () => {
  const step = { kind: 'emptyFile', path, mode: 0o444 } as const;
  expect(argumentsOf([step, step]).filter((argument) => /^1[01]$/.test(argument))).toEqual(['10', '11']);
});

test('more arguments than bwrap takes are refused', () => {
  const most = BWRAP_MAX_ARGUMENTS - BWRAP_SPARE_ARGUMENTS;
  const fixed = argumentsOf([]).length;
  const binds = (count: number) => new Array<MountStep>(count).fill({ kind: 'bind', path, writable: false });
  const fitting = Math.floor((most - fixed) / 3);
  expect(argumentsOf(binds(fitting)).length).toBeLessThanOrEqual(most);
  expect(() => argumentsOf(binds(fitting + 1))).toThrow(
    expect.objectContaining({
      kind: 'unenforceable',
      message: expect.stringMatching(/more mounts than bwrap can make/),
    }),
  );
});
