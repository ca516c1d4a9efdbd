import { expect, test } from 'vitest';
import {
  BWRAP_HEADROOM_ARGUMENTS,
  BWRAP_MAX_ARGUMENTS,
  MAX_LATE_COVERS,
} from '../../../../src/sandbox/limits.ts';
import {
  canBuildAhead,
  type MountOptions,
  mountArguments,
} from '../../../../src/sandbox/linux/bwrap-arguments.ts';
import type { MountPlan, MountStep, Placeholder } from '../../../../src/sandbox/mounts/mount-plan.ts';
import { native } from '../native.ts';

function planOf(steps: readonly MountStep[], placeholders: readonly Placeholder[] = []): MountPlan {
  return {
    steps,
    mounted: [],
    placeholders,
    missing: [],
    fingerprint: '',
    observed: { paths: [], globs: [] },
  };
}

function argumentsOf(steps: readonly MountStep[], options: Partial<MountOptions> = {}): string[] {
  let fd = 10;
  return mountArguments(planOf(steps), { isolateNetwork: true, emptyFd: () => fd++, ...options });
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

test('sets up the namespaces and starts in the root directory', () => {
  const namespaces = '--unshare-user --unshare-pid --unshare-ipc --unshare-cgroup-try';
  expect(argumentsOf([]).join(' ')).toBe(
    `${namespaces} --unshare-net --die-with-parent --cap-drop ALL --chdir /`,
  );
  expect(argumentsOf([], { isolateNetwork: false }).join(' ')).toBe(
    `${namespaces} --die-with-parent --cap-drop ALL --chdir /`,
  );
});

test('uses one descriptor for each empty file', () => {
  const step = { kind: 'emptyFile', path, mode: 0o444 } as const;
  expect(argumentsOf([step, step]).filter((argument) => /^1[01]$/.test(argument))).toEqual(['10', '11']);
});

test('refuses more arguments than bwrap accepts', () => {
  const most = BWRAP_MAX_ARGUMENTS - BWRAP_HEADROOM_ARGUMENTS;
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

test('puts placeholders, optional ones, and covers with their inner mounts behind the gate', () => {
  const made = native('/x y/.git');
  const steps: MountStep[] = [
    { kind: 'bind', path, writable: true },
    { kind: 'bind', path: made, writable: false },
    { kind: 'emptyDirectory', path: native('/z'), mode: 0o111 },
    { kind: 'bind', path: native('/z/in'), writable: true },
    { kind: 'seal', path: native('/z') },
    { kind: 'emptyFile', path: native('/z z'), mode: 0 },
    { kind: 'bind', path: native('/zz'), writable: true },
  ];
  const plan = planOf(steps, [{ path: made, kind: 'directory' }]);
  const args = mountArguments(plan, { isolateNetwork: true, emptyFd: () => 8, gate: 7 });
  expect(args.slice(args.indexOf('--bind'), -2).join('|')).toBe(
    [
      '--bind|/x y|/x y',
      '--bind|/zz|/zz',
      '--file|7|/dev/null',
      '--ro-bind-try|/x y/.git|/x y/.git',
      '--perms|0111|--tmpfs|/z',
      '--bind|/z/in|/z/in',
      '--remount-ro|/z',
      '--perms|0000|--ro-bind-data|8|/z z',
    ].join('|'),
  );
});

const covers = (count: number) =>
  Array.from({ length: count }, (): MountStep => ({ kind: 'emptyFile', path, mode: 0 }));

test.each<[string, MountStep[], Placeholder[], boolean]>([
  ['of mounts', [{ kind: 'bind', path, writable: true }], [], true],
  ['with a protected name', [], [{ path, kind: 'directory' }], true],
  ['with some covers', covers(MAX_LATE_COVERS), [], true],
  ['with many covers', covers(MAX_LATE_COVERS + 1), [], false],
  ['with a missing file to deny', [], [{ path, kind: 'file' }], false],
  ['without the disk', [{ kind: 'emptyRoot' }], [], false],
  ['with a link', [{ kind: 'link', path, target: 't' }], [], false],
])('decides whether a plan can be pre-built: a plan %s', (_, steps, placeholders, expected) => {
  expect(canBuildAhead(planOf(steps, placeholders))).toBe(expected);
});
