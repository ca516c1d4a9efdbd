import { chmodSync, mkdirSync, renameSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { MAX_GLOB_DIRECTORIES, MAX_GLOB_MATCHES } from '../../../../src/sandbox/limits.ts';
import { type FileProbe, localProbe } from '../../../../src/sandbox/mounts/file-probe.ts';
import type { MountPlan, MountStep } from '../../../../src/sandbox/mounts/mount-plan.ts';
import { PLACEHOLDER_MODES } from '../../../../src/sandbox/mounts/mount-plan.ts';
import { isCurrent, planMounts } from '../../../../src/sandbox/mounts/plan-mounts.ts';
import { native } from '../native.ts';
import { type Line, useTree } from './tree.ts';

const tree = useTree();

/** The steps in the tree of the test, one word each. */
function told(plan: MountPlan): string[] {
  return plan.steps.flatMap((step) =>
    'path' in step && step.path.startsWith(tree.path)
      ? [`${word(step)} ${step.path.slice(tree.path.length) || '/'}`]
      : [],
  );
}

function word(step: MountStep): string {
  if (step.kind === 'bind') return step.writable ? 'write' : 'read';
  if (step.kind === 'link') return `link to ${step.target.replaceAll(tree.path, '@')} at`;
  return 'mode' in step ? `${step.kind}(${step.mode.toString(8)})` : step.kind;
}

/** All names are there, so that nothing has to be made. */
function protectedNames(root: string): string[] {
  return ['.agents', '.aws', '.codex', '.git'].map((name) => `${root}/${name}/`);
}

const readNames = (root: string) =>
  ['.agents', '.aws', '.codex', '.git'].map((name) => `read ${root}/${name}`);

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
      'two ways to one place',
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
      'denied files by pattern',
      ['@/w/a/x.env', '@/w/y.env', '@/w/l.env -> y.env', '@/w/d.env/f'],
      ['read /', 'write @/w', 'deny @/w/*.env'],
      ['write /w', ...readNames('/w'), 'emptyFile(0) /w/a/x.env', 'emptyFile(0) /w/y.env'],
    ],
    [
      'what is denied outside a root',
      ['@/d/', '@/f'],
      ['read /', 'deny @/d', 'deny @/f', 'deny @/none'],
      ['emptyDirectory(0) /d', 'seal /d', 'emptyFile(0) /f'],
    ],
    [
      'what is opened in a denied directory',
      ['@/d/a/b/', '@/d/f', ...protectedNames('@/d/a/b')],
      ['read /', 'deny @/d', 'write @/d/a/b', 'read @/d/f'],
      ['emptyDirectory(111) /d', 'write /d/a/b', ...readNames('/d/a/b'), 'read /d/f', 'seal /d'],
    ],
    [
      'a neighbour with a longer name',
      ['@/d/x', '@/d-e/x'],
      ['read /', 'deny @/d', 'read @/d/x', 'deny @/d-e'],
      ['emptyDirectory(111) /d', 'read /d/x', 'seal /d', 'emptyDirectory(0) /d-e', 'seal /d-e'],
    ],
    [
      'what is opened on a closed disk',
      ['@/a/x', '@/b/'],
      ['read @/a/x', 'write @/b', 'read @/none'],
      ['read /a/x', 'write /b', ...readNames('/b')],
    ],
    [
      'links on a closed disk',
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
      'nested to and fro',
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
      'a carve-out of something that needs none',
      ['@/w/a/x'],
      ['read /', 'write @/w', 'read @/w/a', 'read @/w/a/x'],
      ['write /w', ...readNames('/w'), 'read /w/a'],
    ],
  ])('%s', async (_, files, lines, expected) => {
    tree.make(...protectedNames('@/w'), ...protectedNames('@/b'), ...files);
    const plan = await tree.plan(tree.disk(...lines));
    expect(told(plan)).toEqual(expected);
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
  ])('the foundation of `%s`', async (line, expected) => {
    const plan = await tree.plan(tree.disk(line, 'deny @/x'));
    expect(plan.steps.slice(0, 3)).toEqual(expected);
  });

  test('a writable disk is pinned down to what is closed, and roots on it are nothing special', async () => {
    tree.make('@/w/', '@/a/b/x');
    const plan = await tree.plan(tree.disk('write /', 'write @/w', 'read @/a/b/x'));
    expect(told(plan)).toEqual(['write /', 'write /a', 'write /a/b', 'read /a/b/x']);
    expect(plan.placeholders.map(({ path }) => path).filter((path) => path.startsWith(tree.path))).toEqual(
      [],
    );
  });

  test('the platform is what there is of it, links being links', async () => {
    const { steps } = await tree.plan(tree.disk('minimal'));
    expect(steps).toContainEqual({ kind: 'bind', path: '/usr', writable: false });
    expect(steps).toContainEqual({ kind: 'bind', path: '/etc', writable: false });
    expect(steps.some((step) => 'path' in step && step.path.startsWith('/nix'))).toBe(false);
  });

  test('names that are not UTF-8 are kept', async () => {
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

  test('processes can be denied as a whole, and shared memory be granted', async () => {
    const { steps } = await tree.plan(tree.disk('read /', 'deny /proc', 'write /dev/shm'));
    expect(steps).toContainEqual({ kind: 'emptyDirectory', path: '/proc', mode: 0 });
    expect(steps).toContainEqual({ kind: 'bind', path: '/dev/shm', writable: true });
    const closed = await tree.plan(tree.disk('write /', 'deny /dev/shm/none', 'read /dev/full'));
    expect(closed.steps.filter((step) => 'path' in step && step.path.startsWith('/dev'))).toEqual([
      { kind: 'emptyFile', path: '/dev/shm/none', mode: 0 },
    ]);
  });
});

describe('what is missing', () => {
  const lines: Line[] = [
    'read /',
    'write @/w',
    'deny @/w/d/e',
    'read @/w/r/s',
    'read @/w/a/t',
    'write @/w/new',
    'deny @/no/x',
  ];

  test('has a place kept for it while a program runs', async () => {
    tree.make('@/w/a/');
    const plan = await tree.plan(tree.disk(...lines));
    expect(told(plan)).toEqual([
      'write /w',
      ...['.agents', '.aws', '.codex', '.git'].flatMap((name) => [
        `emptyDirectory(555) /w/${name}`,
        `seal /w/${name}`,
      ]),
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

  test('is left to whoever works on files', async () => {
    tree.make('@/w/a/', '@/w/.git/');
    const plan = await tree.plan(tree.disk(...lines), 'files');
    expect(told(plan)).toEqual(['write /w', 'read /w/.git']);
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

  test('may have been given a place by another sandbox', async () => {
    tree.make('@/w/.codex/', '@/w/d', '@/w/a/');
    const before = await tree.plan(tree.disk(...lines));
    chmodSync(tree.real('@/w/.codex'), PLACEHOLDER_MODES.directory);
    chmodSync(tree.real('@/w/d'), PLACEHOLDER_MODES.file);
    const after = await tree.plan(tree.disk(...lines));
    expect(before.placeholders.map(({ path }) => path)).not.toContain(tree.real('@/w/.codex'));
    expect(after.placeholders.map(({ path }) => path)).toContain(tree.real('@/w/.codex'));
    expect(after.placeholders.map(({ path }) => path)).toContain(tree.real('@/w/d'));
  });

  test('stays missing below a file, which then stays a file', async () => {
    tree.make(...protectedNames('@/w'), '@/w/f', '@/g');
    const plan = await tree.plan(tree.disk('read /', 'write @/w', 'deny @/w/f/x', 'deny @/g/x'));
    expect(told(plan)).toEqual(['write /w', ...readNames('/w'), 'write /w/f']);
  });

  test('needs no place where nobody could make it', async () => {
    tree.make('@/w/');
    const probe: FileProbe = { ...localProbe, mayCreateIn: async () => false };
    const plan = await planMounts(tree.disk('read /', 'write @/w', 'deny @/w/x'), probe, 'program');
    expect(told(plan)).toEqual(['write /w']);
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
    expect(told(plan)).toEqual([
      'write /w',
      ...readNames('/w'),
      ...(expected.length > 0 ? ['write /w/repo', ...expected] : []),
      'write /w/v',
      ...readNames('/w/v'),
    ]);
  });

  test('its directory can be opened all the same', async () => {
    tree.make('@/w/repo/mod/', ...protectedNames('@/w').slice(0, 3), ...protectedNames('@/w/repo/mod'));
    writeFileSync(tree.real('@/w/.git'), 'gitdir: repo/mod\n');
    const plan = await tree.plan(tree.disk('read /', 'write @/w', 'write @/w/repo/mod'));
    expect(told(plan)).toContain('write /w/repo/mod');
  });
});

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
      'a way through a link',
      ['@/w/l -> x', '@/w/x/y'],
      ['read /', 'write @/w', 'read @/w/l/y'],
      /writable symlink @\/w\/l/,
    ],
    [
      'a link that leads nowhere',
      ['@/w/l -> none'],
      ['read /', 'write @/w', 'deny @/w/l'],
      /writable symlink @\/w\/l/,
    ],
    [
      'a way in through another root',
      ['@/w/l -> @/o', '@/o/x', '@/m -> w/l'],
      ['read /', 'write @/w', 'deny @/m/x'],
      /writable symlink @\/w\/l/,
    ],
    [
      'a pattern behind a link',
      ['@/w/l -> x', '@/w/x/y'],
      ['read /', 'write @/w', 'deny @/w/l/*'],
      /deny-read path @\/w\/l because/,
    ],
    [
      'a writable link out of a root',
      ['@/w/l -> @/o', '@/o/'],
      ['read /', 'write @/w', 'write @/w/l'],
      /@\/w\/l can be changed from inside/,
    ],
    [
      'two writable links that vouch for one another',
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
      .then(told, (error: Error & { kind?: string }) => [
        error.kind,
        error.message.replaceAll(tree.path, '@'),
      ]);
    expect(await planned).toEqual(['unenforceable', expect.stringMatching(message)]);
  });

  test.each<[string, string[], Line[], string]>([
    [
      'a link to where one may write anyway',
      ['@/w/l -> x', '@/w/x/'],
      ['read /', 'write @/w', 'write @/w/l'],
      'write /w/x',
    ],
    [
      'a link in a directory that is closed for writing',
      ['@/w/r/l -> ../x', '@/w/x'],
      ['read /', 'write @/w', 'read @/w/r', 'deny @/w/r/l'],
      'emptyFile(0) /w/x',
    ],
    ['a link outside', ['@/l -> w/x', '@/w/x'], ['read /', 'write @/w', 'deny @/l'], 'emptyFile(0) /w/x'],
  ])('none for %s', async (_, files, lines, step) => {
    tree.make('@/w/', ...files);
    expect(told(await tree.plan(tree.disk(...lines)))).toContain(step);
  });

  test('a directory in a root that the server may not look into', async () => {
    tree.make('@/w/a/x', '@/c/x');
    const probe: FileProbe = {
      ...localProbe,
      facts: async (path) => (/\/[ac]\/x$/.test(path) ? 'unreachable' : await localProbe.facts(path)),
    };
    const inside = planMounts(tree.disk('read /', 'write @/w', 'deny @/w/a/x'), probe, 'program');
    await expect(inside).rejects.toMatchObject({
      kind: 'unenforceable',
      message: expect.stringMatching(/closed/),
    });
    const outside = await planMounts(tree.disk('read /', 'write @/w/a', 'deny @/c/x'), probe, 'program');
    expect(told(outside).filter((step) => step.includes('/c'))).toEqual([]);
  });

  test('an error of the disk', async () => {
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

describe('patterns', () => {
  /** A directory with as many files or directories as a test needs, each of which looks the same. */
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

  test("pass over directories that others have closed, but not over one of the server's user", async () => {
    tree.make('@/w/a/');
    const closed = (uid: number): FileProbe => ({
      ...localProbe,
      facts: async (path) => {
        const facts = await localProbe.facts(path);
        return facts === null || facts === 'unreachable' ? facts : { ...facts, uid };
      },
      // biome-ignore lint/correctness/useYield: nothing comes of a directory that cannot be opened.
      entries: async function* () {
        throw Object.assign(new Error('EACCES'), { code: 'EACCES' });
      },
    });
    const disk = tree.disk('read /', 'deny @/w/*');
    const own = process.geteuid!();
    await expect(planMounts(disk, closed(own + 1), 'program')).resolves.toBeDefined();
    await expect(planMounts(disk, closed(own), 'program')).rejects.toMatchObject({
      message: expect.stringMatching(/closed/),
    });
  });

  test('go no deeper than the policy says', async () => {
    tree.make('@/d/x.env', '@/d/a/x.env', '@/d/a/b/x.env');
    const disk = tree.disk('read /', 'deny @/d/*.env');
    const [pattern] = disk.denyGlobs;
    const plan = await tree.plan({ ...disk, denyGlobs: [{ ...pattern!, maxDepth: 2 }] });
    expect(told(plan)).toEqual(['emptyFile(0) /d/a/x.env', 'emptyFile(0) /d/x.env']);
  });
});

describe('a plan holds', () => {
  const lines: Line[] = ['read /', 'write @/l', 'deny @/w/d', 'read @/w/r/s', 'deny @/w/**/*.env'];

  test.each<[string, boolean, () => void]>([
    ['as long as nothing happens', true, () => {}],
    ['when files are made', true, () => writeFileSync(tree.real('@/w/a/other'), '')],
    ['until a protected name is made', false, () => mkdirSync(tree.real('@/w/.git'))],
    ['until the root is made anew', false, () => remake('@/w')],
    ['until a denied directory is made anew', false, () => remake('@/w/d')],
    ['until something missing is made', false, () => mkdirSync(tree.real('@/w/r'))],
    ['until a file matches', false, () => writeFileSync(tree.real('@/w/a/new.env'), '')],
    ['until a matching file is replaced', false, () => remake('@/w/a/x.env')],
    ['until a link is turned', false, () => turn('@/l')],
    [
      'when another sandbox needs a place',
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

  test('not where one cannot look', async () => {
    tree.make('@/w/d/', '@/l -> w');
    const plan = await tree.plan(tree.disk(...lines), 'files');
    const probe: FileProbe = { ...localProbe, facts: () => Promise.reject(new Error('EIO')) };
    expect(await isCurrent(plan, probe)).toBe(false);
  });

  /** The old one stays, as it does while it is mounted: its number is not given away. */
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
