import { chmodSync, writeFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { type FileProbe, localProbe } from '../../../../src/sandbox/mounts/file-probe.ts';
import {
  type MountPlan,
  type MountStep,
  PLACEHOLDER_MODES,
} from '../../../../src/sandbox/mounts/mount-plan.ts';
import { planMounts } from '../../../../src/sandbox/mounts/plan-mounts.ts';
import { native } from '../native.ts';
import { describeSteps, protectedNames, readNames } from './describe-steps.ts';
import { type Line, useTree } from './tree.ts';

const tree = useTree();
const steps = (plan: MountPlan) => describeSteps(plan, tree);

describe('steps', () => {
  test.each<[string, string[], Line[], string[]]>([
    ['a writable root', ['@/w/'], ['read /', 'write @/w'], ['write /w', ...readNames('/w')]],
    ['a root that is missing', [], ['read /', 'write @/v'], []],
    ['a root that is a file', ['@/f'], ['read /', 'write @/f'], ['write /f']],
    [
      'a root that is a link',
      ['@/w/', '@/l -> w'],
      ['read /', 'write @/l'],
      ['write /w', ...readNames('/w')],
    ],
    [
      'a carve-out through a root that is a link',
      ['@/w/x', '@/l -> @/w'],
      ['read /', 'write @/l', 'deny @/l/x'],
      ['write /w', ...readNames('/w'), 'emptyFile(0) /w/x'],
    ],
    [
      'two paths to the same file',
      ['@/w/', '@/l -> w'],
      ['read /', 'write @/w', 'deny @/l'],
      ['emptyDirectory(0) /w', 'seal /w'],
    ],
    [
      'a root in a root',
      ['@/w/a/v/', ...protectedNames('@/w/a/v')],
      ['read /', 'write @/w', 'write @/w/a/v'],
      ['write /w', ...readNames('/w'), 'write /w/a', 'write /w/a/v', ...readNames('/w/a/v')],
    ],
    [
      'a read-only file',
      ['@/w/x'],
      ['read /', 'write @/w', 'read @/w/x'],
      ['write /w', ...readNames('/w'), 'read /w/x'],
    ],
    [
      'a read-only file further down',
      ['@/w/a/b/x'],
      ['read /', 'write @/w', 'read @/w/a/b/x'],
      ['write /w', ...readNames('/w'), 'write /w/a', 'write /w/a/b', 'read /w/a/b/x'],
    ],
    [
      'a denied directory further down',
      ['@/w/a/d/'],
      ['read /', 'write @/w', 'deny @/w/a/d'],
      ['write /w', ...readNames('/w'), 'write /w/a', 'emptyDirectory(0) /w/a/d', 'seal /w/a/d'],
    ],
    [
      'files that a glob denies',
      ['@/w/a/x.env', '@/w/y.env', '@/w/l.env -> y.env', '@/w/d.env/f'],
      ['read /', 'write @/w', 'deny @/w/*.env'],
      ['write /w', ...readNames('/w'), 'write /w/a', 'emptyFile(0) /w/a/x.env', 'emptyFile(0) /w/y.env'],
    ],
    [
      'a writable file that a glob denies',
      ['@/d/x.env'],
      ['read /', 'write @/d/x.env', 'deny @/d/*.env'],
      ['emptyFile(0) /d/x.env'],
    ],
    [
      'a denied path outside a root',
      ['@/d/', '@/f'],
      ['read /', 'deny @/d', 'deny @/f', 'deny @/none'],
      ['emptyDirectory(0) /d', 'seal /d', 'emptyFile(0) /f'],
    ],
    [
      'a granted path in a denied directory',
      ['@/d/a/b/', '@/d/f', ...protectedNames('@/d/a/b')],
      ['read /', 'deny @/d', 'write @/d/a/b', 'read @/d/f'],
      ['emptyDirectory(111) /d', 'write /d/a/b', ...readNames('/d/a/b'), 'seal /d'],
    ],
    [
      'a neighbour with a longer name',
      ['@/d/x/', '@/d-e/x', ...protectedNames('@/d/x')],
      ['read /', 'deny @/d', 'write @/d/x', 'deny @/d-e'],
      [
        'emptyDirectory(111) /d',
        'write /d/x',
        ...readNames('/d/x'),
        'seal /d',
        'emptyDirectory(0) /d-e',
        'seal /d-e',
      ],
    ],
    [
      'a granted path on a hidden disk',
      ['@/a/x', '@/b/'],
      ['read @/a/x', 'write @/b', 'read @/none'],
      ['read /a/x', 'write /b', ...readNames('/b')],
    ],
    [
      'links on a hidden disk',
      ['@/w/a/', '@/l -> m', '@/m -> @/w', ...protectedNames('@/w/a')],
      ['write @/l/a'],
      ['link to m at /l', 'link to @/w at /m', 'write /w/a', ...readNames('/w/a')],
    ],
    [
      'a link that is visible',
      ['@/w/', '@/v/l -> ../w'],
      ['read @/v', 'write @/v/l'],
      ['read /v', 'write /w', ...readNames('/w')],
    ],
    [
      'alternately nested entries',
      ['@/w/a/b/c/', ...protectedNames('@/w/a/b/c')],
      ['read /', 'write @/w', 'read @/w/a', 'deny @/w/a/b', 'write @/w/a/b/c'],
      [
        'write /w',
        ...readNames('/w'),
        'read /w/a',
        'emptyDirectory(111) /w/a/b',
        'write /w/a/b/c',
        ...readNames('/w/a/b/c'),
        'seal /w/a/b',
      ],
    ],
    [
      'a restriction that has no effect',
      ['@/w/a/x'],
      ['read /', 'write @/w', 'read @/w/a', 'read @/w/a/x'],
      ['write /w', ...readNames('/w'), 'read /w/a'],
    ],
  ])('%s', async (_, files, lines, expected) => {
    tree.make(...protectedNames('@/w'), ...protectedNames('@/b'), ...files);
    const plan = await tree.plan(tree.disk(...lines));
    expect(steps(plan)).toEqual(expected);
    expect(plan.placeholders).toEqual([]);
  });

  test.each<[Line, MountStep[]]>([
    [
      'read /',
      [
        { kind: 'bind', path: native('/'), writable: false },
        { kind: 'devices', sharedMemory: 'private' },
        { kind: 'processes' },
      ],
    ],
    [
      'read /nowhere',
      [{ kind: 'emptyRoot' }, { kind: 'devices', sharedMemory: 'private' }, { kind: 'processes' }],
    ],
    [
      'write /',
      [
        { kind: 'bind', path: native('/'), writable: true },
        { kind: 'devices', sharedMemory: 'host' },
        { kind: 'processes' },
      ],
    ],
  ])('the base of `%s`', async (line, expected) => {
    const plan = await tree.plan(tree.disk(line, 'deny @/x'));
    expect(plan.steps.slice(0, 3)).toEqual(expected);
  });

  test('pins the restricted paths and roots on a writable disk', async () => {
    tree.make('@/v/w/', '@/a/b/x');
    const plan = await tree.plan(tree.disk('write /', 'write @/v/w', 'read @/a/b/x'));
    expect(steps(plan)).toEqual([
      'write /',
      'write /a',
      'write /a/b',
      'read /a/b/x',
      'write /v',
      'write /v/w',
      ...readNames('/v/w'),
    ]);
  });

  test('shows the existing platform directories, with links as links', async () => {
    const { steps } = await tree.plan(tree.disk('minimal'));
    expect(steps).toContainEqual({ kind: 'bind', path: '/usr', writable: false });
    expect(steps).toContainEqual({ kind: 'bind', path: '/etc', writable: false });
    expect(steps.some((step) => 'path' in step && step.path.startsWith('/nix'))).toBe(false);
  });

  test('keeps names that are not UTF-8', async () => {
    tree.make('@/w/', ...protectedNames('@/w'));
    const path = Buffer.from(`${tree.path}/w/\xff.env`, 'latin1');
    writeFileSync(path, 'x');
    const plan = await tree.plan(tree.disk('read /', 'write @/w', 'deny @/w/*.env'));
    expect(plan.steps).toContainEqual({ kind: 'emptyFile', path: path.toString('latin1'), mode: 0 });
  });

  test.each<[Line, string]>([
    ['write /dev', '/dev'],
    ['read /dev/null', '/dev/null'],
    ['write /dev/pts', '/dev/pts'],
    ['write /proc', '/proc'],
    ['read /proc/self', '/proc'],
  ])("devices and processes are never the host's: %s", async (line, path) => {
    const { steps, placeholders } = await tree.plan(tree.disk('read @/x', line));
    expect(steps.filter((step) => 'path' in step && step.path.startsWith(path))).toEqual([]);
    expect(placeholders).toEqual([]);
  });

  test('can deny /proc as a whole and grant /dev/shm', async () => {
    const { steps } = await tree.plan(tree.disk('read /', 'deny /proc', 'write /dev/shm'));
    expect(steps).toContainEqual({ kind: 'emptyDirectory', path: '/proc', mode: 0 });
    expect(steps).toContainEqual({ kind: 'bind', path: '/dev/shm', writable: true });
    const closed = await tree.plan(tree.disk('write /', 'deny /dev/shm/none', 'read /dev/full'));
    expect(closed.steps.filter((step) => 'path' in step && step.path.startsWith('/dev'))).toEqual([
      { kind: 'emptyFile', path: '/dev/shm/none', mode: 0 },
    ]);
  });
});

describe('a missing path', () => {
  const lines: Line[] = [
    'read /',
    'write @/w',
    'deny @/w/d/e',
    'read @/w/r/s',
    'read @/w/a/t',
    'write @/w/new',
    'deny @/no/x',
  ];

  test('gets a placeholder in a plan for a program', async () => {
    tree.make('@/w/a/');
    const plan = await tree.plan(tree.disk(...lines));
    expect(steps(plan)).toEqual([
      'write /w',
      ...readNames('/w'),
      'write /w/a',
      'emptyFile(444) /w/a/t',
      'emptyFile(0) /w/d',
      'emptyFile(444) /w/r',
    ]);
    expect(plan.placeholders.map(({ path, kind }) => `${kind} ${path.slice(tree.path.length)}`)).toEqual([
      'directory /w/.agents',
      'directory /w/.aws',
      'directory /w/.codex',
      'directory /w/.git',
      'file /w/a/t',
      'file /w/d',
      'file /w/r',
    ]);
    expect(plan.missing).toEqual([]);
  });

  test('is listed for the helper in a plan for files', async () => {
    tree.make('@/w/a/', '@/w/.git/');
    const plan = await tree.plan(tree.disk(...lines), 'files');
    expect(steps(plan)).toEqual(['write /w', 'read /w/.git']);
    expect(plan.placeholders).toEqual([]);
    const byName = { access: 'read', byName: true };
    expect(plan.missing).toEqual([
      { path: tree.real('@/w/.agents'), ...byName },
      { path: tree.real('@/w/.aws'), ...byName },
      { path: tree.real('@/w/.codex'), ...byName },
      { path: tree.real('@/w/a/t'), access: 'read', byName: false },
      { path: tree.real('@/w/d/e'), access: 'deny', byName: false },
      { path: tree.real('@/w/r/s'), access: 'read', byName: false },
    ]);
  });

  test('gets a directory if its name is protected, unless it is denied', async () => {
    tree.make('@/w/a/', '@/w/b/', ...protectedNames('@/w'));
    const disk = tree.disk('read /', 'write @/w', 'read @/w/a/.git', 'deny @/w/b/.git', 'read @/w/c/.git');
    const { placeholders } = await tree.plan(disk);
    expect(placeholders).toEqual([
      { path: tree.real('@/w/a/.git'), kind: 'directory' },
      { path: tree.real('@/w/b/.git'), kind: 'file' },
      { path: tree.real('@/w/c'), kind: 'file' },
    ]);
    const { missing } = await tree.plan(disk, 'files');
    expect(missing.map(({ byName }) => byName)).toEqual([true, false, false]);
  });

  test('counts as missing when another sandbox has created its placeholder', async () => {
    tree.make('@/w/.codex/', '@/w/a/');
    writeFileSync(tree.real('@/w/d'), '');
    const before = await tree.plan(tree.disk(...lines));
    chmodSync(tree.real('@/w/.codex'), PLACEHOLDER_MODES.directory);
    chmodSync(tree.real('@/w/d'), PLACEHOLDER_MODES.file);
    const after = await tree.plan(tree.disk(...lines));
    expect(before.placeholders.map(({ path }) => path)).not.toContain(tree.real('@/w/.codex'));
    expect(after.placeholders.map(({ path }) => path)).toContain(tree.real('@/w/.codex'));
    expect(after.placeholders.map(({ path }) => path)).toContain(tree.real('@/w/d'));
  });

  test('is not a filled entry that a program gave the mode of a placeholder', async () => {
    tree.make('@/w/v/', '@/r/a/x', '@/r/f', '@/w/.codex/x', ...protectedNames('@/w').slice(0, 2));
    for (const path of ['@/w/v', '@/r/a', '@/w/.codex'])
      chmodSync(tree.real(path), PLACEHOLDER_MODES.directory);
    chmodSync(tree.real('@/r/f'), PLACEHOLDER_MODES.file);
    const lines: Line[] = ['read /', 'write @/w', 'write @/w/v', 'deny @/r/a/x', 'deny @/r/f'];
    const plan = await tree.plan(tree.disk(...lines));
    expect(steps(plan)).toEqual([
      'emptyFile(0) /r/a/x',
      'emptyFile(0) /r/f',
      'write /w',
      ...readNames('/w'),
      'write /w/v',
      ...readNames('/w/v'),
    ]);
    expect(plan.placeholders.map(({ path }) => path)).not.toContain(tree.real('@/w/.codex'));
  });

  test.each([
    ['by a directory that passes its group on', 0o3555, true],
    ['by a umask', 0o1500, true],
    ['to a writable one', 0o1755, false],
    ['so that it is not sticky', 0o555, false],
  ])('is recognized by its placeholder when its mode was changed %s: %#', async (_, mode, isPlace) => {
    tree.make('@/w/.codex/');
    chmodSync(tree.real('@/w/.codex'), mode);
    const { placeholders } = await tree.plan(tree.disk(...lines));
    expect(placeholders.some(({ path }) => path === tree.real('@/w/.codex'))).toBe(isPlace);
  });

  test('stays missing below a file, which is pinned', async () => {
    tree.make(...protectedNames('@/w'), '@/w/f', '@/g');
    const plan = await tree.plan(tree.disk('read /', 'write @/w', 'deny @/w/f/x', 'deny @/g/x'));
    expect(steps(plan)).toEqual(['write /w', ...readNames('/w'), 'write /w/f']);
  });

  test('needs no placeholder in a directory that is not writable', async () => {
    tree.make('@/w/');
    const probe: FileProbe = { ...localProbe, mayCreateIn: async () => false };
    const plan = await planMounts(tree.disk('read /', 'write @/w', 'deny @/w/x'), probe, 'program');
    expect(steps(plan)).toEqual(['write /w']);
  });
});

describe('a .git that is a file', () => {
  test.each<[string, string, string[]]>([
    ['absolute', 'gitdir: @/w/repo/mod\n', ['read /w/repo/mod']],
    ['relative', 'gitdir: ../repo/mod', ['read /w/repo/mod']],
    ['outside', 'gitdir: @/out\n', []],
    ['missing', 'gitdir: ../none\n', []],
    ['something else', 'hello\n', []],
  ])('%s', async (_, text, expected) => {
    tree.make(...protectedNames('@/w/v').slice(0, 3), ...protectedNames('@/w'), '@/w/repo/mod/', '@/out/');
    writeFileSync(tree.real('@/w/v/.git'), tree.real(text));
    const plan = await tree.plan(tree.disk('read /', 'write @/w', 'write @/w/v'));
    expect(steps(plan)).toEqual([
      'write /w',
      ...readNames('/w'),
      ...(expected.length > 0 ? ['write /w/repo', ...expected] : []),
      'write /w/v',
      ...readNames('/w/v'),
    ]);
  });

  test('protects its directory when the file is denied', async () => {
    tree.make('@/w/mod/', '@/w/v/mod/', ...protectedNames('@/w').slice(0, 3));
    writeFileSync(tree.real('@/w/.git'), 'gitdir: mod\n');
    writeFileSync(tree.real('@/w/v/.git'), 'gitdir: mod\n');
    const plan = await tree.plan(tree.disk('read /', 'write @/w', 'deny @/w/.git', 'deny @/w/v/.git'));
    expect(steps(plan)).toContain('read /w/mod');
    expect(steps(plan)).not.toContain('read /w/v/mod');
  });

  test('does not protect its directory from an explicit write entry', async () => {
    tree.make('@/w/repo/mod/', ...protectedNames('@/w').slice(0, 3), ...protectedNames('@/w/repo/mod'));
    writeFileSync(tree.real('@/w/.git'), 'gitdir: repo/mod\n');
    const plan = await tree.plan(tree.disk('read /', 'write @/w', 'write @/w/repo/mod'));
    expect(steps(plan)).toContain('write /w/repo/mod');
  });
});
