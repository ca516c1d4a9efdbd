import { mkdirSync, renameSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { MAX_GLOB_DIRECTORIES, MAX_GLOB_MATCHES } from '../../../../src/sandbox/limits.ts';
import { type FileProbe, localProbe } from '../../../../src/sandbox/mounts/file-probe.ts';
import { type MountPlan, PLACEHOLDER_MODES } from '../../../../src/sandbox/mounts/mount-plan.ts';
import { isCurrent, planMounts } from '../../../../src/sandbox/mounts/plan-mounts.ts';
import { describeSteps } from './describe-steps.ts';
import { type Line, useTree } from './tree.ts';

const tree = useTree();
const steps = (plan: MountPlan) => describeSteps(plan, tree);

describe('refusals', () => {
  test.each<[string, string[], Line[], RegExp]>([
    [
      'a protected name that is a link',
      ['@/w/.git -> g', '@/w/g/'],
      ['write @/w'],
      /read-only path @\/w\/.git because it crosses writable symlink @\/w\/.git/,
    ],
    [
      'a denied link',
      ['@/w/l -> x', '@/w/x'],
      ['read /', 'write @/w', 'deny @/w/l'],
      /deny-read path @\/w\/l because/,
    ],
    [
      'a path through a link',
      ['@/w/l -> x', '@/w/x/y'],
      ['read /', 'write @/w', 'read @/w/l/y'],
      /writable symlink @\/w\/l/,
    ],
    ['a dangling link', ['@/w/l -> none'], ['read /', 'write @/w', 'deny @/w/l'], /writable symlink @\/w\/l/],
    [
      'a path that leads in through another root',
      ['@/w/l -> @/o', '@/o/x', '@/m -> w/l'],
      ['read /', 'write @/w', 'deny @/m/x'],
      /writable symlink @\/w\/l/,
    ],
    [
      'a glob below a link',
      ['@/w/l -> x', '@/w/x/y'],
      ['read /', 'write @/w', 'deny @/w/l/*'],
      /deny-read path @\/w\/l because/,
    ],
    [
      'a restricted path below a writable link in a root',
      ['@/w/l -> x', '@/w/x/y'],
      ['read /', 'write @/w', 'write @/w/l', 'deny @/w/l/y'],
      /writable symlink @\/w\/l/,
    ],
    [
      'a writable link out of a root',
      ['@/w/l -> @/o', '@/o/'],
      ['read /', 'write @/w', 'write @/w/l'],
      /@\/w\/l can be changed from inside/,
    ],
    [
      'two writable roots that are reached through links in each other',
      ['@/w/l -> @/o', '@/w/m -> @/o', '@/o/'],
      ['read /', 'write @/w', 'write @/w/l', 'write @/w/m'],
      /can be changed from inside/,
    ],
    ['links in a circle', ['@/a -> b', '@/b -> a'], ['read /', 'deny @/a'], /too many symbolic links/],
    ['a process', [], ['read /', 'deny /proc/1'], /deny \/proc as a whole/],
    ['files of processes', [], ['read /', 'deny /proc/self/task/*/comm'], /deny \/proc as a whole/],
  ])('%s', async (_, files, lines, message) => {
    tree.make('@/w/', ...files);
    const planned = tree
      .plan(tree.disk(...lines))
      .then(steps, (error: Error & { kind?: string }) => [
        error.kind,
        error.message.replaceAll(tree.path, '@'),
      ]);
    expect(await planned).toEqual(['unenforceable', expect.stringMatching(message)]);
  });

  test.each<[string, string[], Line[], string]>([
    [
      'a link to a path that is writable anyway',
      ['@/w/l -> x', '@/w/x/'],
      ['read /', 'write @/w', 'write @/w/l'],
      'write /w/x',
    ],
    [
      'a link in a read-only directory',
      ['@/w/r/l -> ../x', '@/w/x'],
      ['read /', 'write @/w', 'read @/w/r', 'deny @/w/r/l'],
      'emptyFile(0) /w/x',
    ],
    ['a link outside', ['@/l -> w/x', '@/w/x'], ['read /', 'write @/w', 'deny @/l'], 'emptyFile(0) /w/x'],
  ])('does not refuse %s', async (_, files, lines, step) => {
    tree.make('@/w/', ...files);
    expect(steps(await tree.plan(tree.disk(...lines)))).toContain(step);
  });

  test('a directory in a root that the server may not search', async () => {
    tree.make('@/w/a/x', '@/c/x');
    const probe: FileProbe = {
      ...localProbe,
      facts: async (path) => (/\/[ac]\/x$/.test(path) ? 'unreachable' : await localProbe.facts(path)),
    };
    const inside = planMounts(tree.disk('read /', 'write @/w', 'deny @/w/a/x'), probe, 'program');
    await expect(inside).rejects.toMatchObject({
      kind: 'unenforceable',
      message: expect.stringMatching(/not accessible/),
    });
    const outside = await planMounts(tree.disk('read /', 'write @/w/a', 'deny @/c/x'), probe, 'program');
    expect(steps(outside).filter((step) => step.includes('/c'))).toEqual([]);
  });

  test('a disk error', async () => {
    const probe: FileProbe = {
      ...localProbe,
      facts: async () => {
        throw Object.assign(new Error('EIO: i/o error'), { code: 'EIO' });
      },
    };
    await expect(planMounts(tree.disk('read /', 'write @/w'), probe, 'program')).rejects.toMatchObject({
      kind: 'unenforceable',
      message: expect.stringContaining('EIO'),
    });
  });
});

describe('deny globs', () => {
  /** A fake directory with any number of equal files or directories. */
  function endless(type: 'file' | 'directory', count: number): FileProbe {
    const entry = {
      isFile: () => type === 'file',
      isDirectory: () => type === 'directory',
      isSymbolicLink: () => false,
    };
    return {
      ...localProbe,
      entries: async function* (path) {
        if (path === tree.real('@/w'))
          yield Array.from({ length: count }, (_, index) => ({ ...entry, name: `${index}` }));
      },
    };
  }

  test.each([
    ['files', 'file', MAX_GLOB_MATCHES],
    ['directories', 'directory', MAX_GLOB_DIRECTORIES],
  ] as const)('that cover too many %s are refused', async (what, type, limit) => {
    tree.make('@/w/');
    const disk = tree.disk('read /', 'deny @/w/*');
    await expect(planMounts(disk, endless(type, limit), 'program')).resolves.toBeDefined();
    await expect(planMounts(disk, endless(type, limit + 1), 'program')).rejects.toMatchObject({
      kind: 'unenforceable',
      message: expect.stringMatching(new RegExp(`more than ${limit} ${what}`)),
    });
  });

  test("skip inaccessible directories of other users, but not of the server's user", async () => {
    tree.make('@/w/a/');
    const closed = (uid: number): FileProbe => ({
      ...localProbe,
      facts: async (path) => {
        const facts = await localProbe.facts(path);
        return facts === null || facts === 'unreachable' ? facts : { ...facts, uid };
      },
      // biome-ignore lint/correctness/useYield: a directory that cannot be opened yields nothing.
      entries: async function* () {
        throw Object.assign(new Error('EACCES'), { code: 'EACCES' });
      },
    });
    const disk = tree.disk('read /', 'deny @/w/*');
    const own = process.geteuid!();
    await expect(planMounts(disk, closed(own + 1), 'program')).resolves.toBeDefined();
    await expect(planMounts(disk, closed(own), 'program')).rejects.toMatchObject({
      message: expect.stringMatching(/permission denied/),
    });
  });

  test('search no deeper than the policy allows', async () => {
    tree.make('@/d/x.env', '@/d/a/x.env', '@/d/a/b/x.env');
    const disk = tree.disk('read /', 'deny @/d/*.env');
    const [pattern] = disk.denyGlobs;
    const plan = await tree.plan({ ...disk, denyGlobs: [{ ...pattern!, maxDepth: 2 }] });
    expect(steps(plan)).toEqual(['emptyFile(0) /d/a/x.env', 'emptyFile(0) /d/x.env']);
  });
});

describe('a plan holds', () => {
  const lines: Line[] = ['read /', 'write @/l', 'deny @/w/d', 'read @/w/r/s', 'deny @/w/**/*.env'];

  test.each<[string, boolean, () => void]>([
    ['as long as nothing happens', true, () => {}],
    ['when files are made', true, () => writeFileSync(tree.real('@/w/a/other'), '')],
    ['until a protected name is made', false, () => mkdirSync(tree.real('@/w/.git'))],
    ['until the root is created again', false, () => remake('@/w')],
    ['until a denied directory is created again', false, () => remake('@/w/d')],
    ['until something missing is made', false, () => mkdirSync(tree.real('@/w/r'))],
    ['until a file matches', false, () => writeFileSync(tree.real('@/w/a/new.env'), '')],
    ['until a matching file is replaced', false, () => remake('@/w/a/x.env')],
    ['until a link is turned', false, () => turn('@/l')],
    [
      'when another sandbox has created a placeholder',
      true,
      () => mkdirSync(tree.real('@/w/.aws'), PLACEHOLDER_MODES.directory),
    ],
  ])('%s', async (_, holds, change) => {
    tree.make('@/w/d/', '@/w/a/x.env', '@/o/', '@/l -> w');
    const disk = tree.disk(...lines);
    const plan = await tree.plan(disk, 'files');
    change();
    expect(await isCurrent(plan, localProbe)).toBe(holds);
    expect((await tree.plan(disk, 'files')).fingerprint === plan.fingerprint).toBe(holds);
  });

  test('until a parent directory is created again around the same file', async () => {
    tree.make('@/w/a/b/c/f');
    const plan = await tree.plan(tree.disk('read /', 'write @/w', 'read @/w/a/b/c'), 'files');
    expect(await isCurrent(plan, localProbe)).toBe(true);
    renameSync(tree.real('@/w/a/b'), tree.real('@/old'));
    mkdirSync(tree.real('@/w/a/b'));
    renameSync(tree.real('@/old/c'), tree.real('@/w/a/b/c'));
    expect(await isCurrent(plan, localProbe)).toBe(false);
  });

  test('not when a probe fails', async () => {
    tree.make('@/w/d/', '@/l -> w');
    const plan = await tree.plan(tree.disk(...lines), 'files');
    const probe: FileProbe = { ...localProbe, facts: () => Promise.reject(new Error('EIO')) };
    expect(await isCurrent(plan, probe)).toBe(false);
  });

  /** Keeps the old entry, as a mount does, so that its inode number is not reused. */
  function remake(path: string): void {
    const real = tree.real(path);
    renameSync(real, `${tree.path}/old`);
    if (path.endsWith('.env')) writeFileSync(real, '');
    else {
      mkdirSync(real);
      if (path === '@/w') tree.make('@/w/d/', '@/w/a/x.env');
    }
  }

  function turn(link: string): void {
    unlinkSync(tree.real(link));
    symlinkSync(tree.real('@/o'), tree.real(link));
  }
});
