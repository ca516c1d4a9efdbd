import { mkdirSync, renameSync, rmSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { type NativePath, nativePathOfText } from '../../../../src/files/native-path.ts';
import { MAX_CACHED_PLANS, MAX_CACHED_PROBES } from '../../../../src/sandbox/limits.ts';
import { Placeholders } from '../../../../src/sandbox/linux/placeholders.ts';
import { type FileFacts, type FileProbe, localProbe } from '../../../../src/sandbox/mounts/file-probe.ts';
import { type MountPlan, PLACEHOLDER_MODES } from '../../../../src/sandbox/mounts/mount-plan.ts';
import { PlanCache } from '../../../../src/sandbox/mounts/plan-cache.ts';
import { type Line, useTree } from './tree.ts';

const tree = useTree();
const LINES: Line[] = ['read /', 'write @/l', 'write @/later', 'deny @/w/d', 'read @/w/r/s', 'deny @/secret'];

/** Keeps the old entry, so that its inode number is not reused. */
function remake(path: string): void {
  renameSync(tree.real(path), `${tree.path}/old`);
  mkdirSync(tree.real(path));
}

/** Whether the placeholders of the plan can be created, or exist for another sandbox. */
async function canBeHeld(plan: MountPlan): Promise<boolean> {
  const calls = {
    lock: () => true,
    openCached: () => null,
    removeAfterDeath: () => () => {},
  };
  try {
    const { release } = await new Placeholders(calls).hold(plan.placeholders);
    await release();
    return true;
  } catch {
    return false;
  }
}

describe('a cached plan', () => {
  test.each<[string, boolean, () => void]>([
    ['holds as long as nothing happens', true, () => {}],
    ['holds when files are made', true, () => writeFileSync(tree.real('@/w/a'), '')],
    [
      'holds when another sandbox has created a placeholder',
      true,
      () => mkdirSync(tree.real('@/w/.aws'), PLACEHOLDER_MODES.directory),
    ],
    ['does not hold when a protected name is made', false, () => mkdirSync(tree.real('@/w/.git'))],
    [
      'does not hold when a protected name was removed',
      false,
      () => rmSync(tree.real('@/w/.codex/'), { recursive: true }),
    ],
    ['does not hold when a root is created again', false, () => remake('@/w')],
    ['does not hold when a root is made that was missing', false, () => mkdirSync(tree.real('@/later'))],
    ['does not hold when a denied directory is created again', false, () => remake('@/w/d')],
    ['does not hold when something denied appears', false, () => writeFileSync(tree.real('@/secret'), '')],
    ['does not hold when something missing is made', false, () => mkdirSync(tree.real('@/w/r'))],
    [
      'does not hold when a link has another target',
      false,
      () => {
        unlinkSync(tree.real('@/l'));
        symlinkSync('o', tree.real('@/l'));
      },
    ],
  ])('%s', async (_, holds, change) => {
    tree.make('@/w/d/', '@/w/.codex/', '@/o/', '@/l -> w');
    const disk = tree.disk(...LINES);
    const cache = new PlanCache();
    const plan = await cache.make(disk);
    const cached = cache.get(disk)!;
    expect(cached.plan).toBe(plan);
    change();
    expect((await canBeHeld(plan)) && (await cached.isCurrent())).toBe(holds);
    const { fingerprint, steps, placeholders } = await tree.plan(disk);
    expect(fingerprint === plan.fingerprint).toBe(holds);
    if (holds)
      expect({ steps, placeholders }).toEqual({ steps: plan.steps, placeholders: plan.placeholders });
  });

  /** A probe with facts that a test cannot change on the disk. */
  const changing = (before: Partial<FileProbe>, after: Partial<FileProbe>) => {
    const disk = { before: { ...localProbe, ...before }, after: { ...localProbe, ...after } };
    let at: keyof typeof disk = 'before';
    const probe: FileProbe = {
      ...localProbe,
      facts: (path) => disk[at].facts(path),
      mayCreateIn: (path) => disk[at].mayCreateIn(path),
      kernelMounts: () => disk[at].kernelMounts(),
    };
    const change = () => {
      at = 'after';
    };
    return { probe, change };
  };
  const socketDirectory: FileFacts = { type: 'directory', identity: '1:2:directory', mode: 0o700, uid: 0 };
  const withDaemon = async (path: NativePath) =>
    path.startsWith('/tmp/codex-daemon-') ? socketDirectory : localProbe.facts(path);
  const debugFiles = { path: nativePathOfText('/srv/debug'), device: 1n, access: 'read' } as const;
  const closed: Partial<FileProbe> = { mayCreateIn: async () => false };

  test.each<[string, Partial<FileProbe>, Partial<FileProbe>]>([
    ['a directory is opened', closed, {}],
    ['a file system of the kernel is mounted', {}, { kernelMounts: async () => [debugFiles] }],
    ['a daemon listens', {}, { facts: withDaemon }],
    ['a probe fails', {}, { facts: () => Promise.reject(new Error('EIO')) }],
  ])('does not hold when %s', async (_, before, after) => {
    tree.make('@/w/');
    const { probe, change } = changing(before, after);
    const disk = tree.disk('read /', 'write @/w');
    const cache = new PlanCache(probe);
    await cache.make(disk);
    expect(await cache.get(disk)!.isCurrent()).toBe(true);
    change();
    expect(await cache.get(disk)!.isCurrent()).toBe(false);
  });
});

describe('the cache does not keep plans', () => {
  test.each<[string, string[], Line[]]>([
    ['of files that patterns match', ['@/w/a.env'], ['read /', 'write @/w', 'deny @/w/**/*.env']],
    ['of what a file names', ['@/w/.git'], ['read /', 'write @/w']],
  ])('%s', async (_, files, lines) => {
    tree.make(...files);
    const cache = new PlanCache();
    await cache.make(tree.disk(...lines));
    expect(cache.get(tree.disk(...lines))).toBeNull();
  });

  test('of a policy that cannot be enforced', async () => {
    tree.make('@/w/', '@/l -> w');
    const disk = tree.disk('read /', 'write @/l');
    const cache = new PlanCache();
    await cache.make(disk);
    unlinkSync(tree.real('@/l'));
    tree.make('@/w/.git -> x', '@/l -> w');
    await expect(cache.make(disk)).rejects.toThrow('writable symlink');
    expect(cache.get(disk)).toBeNull();
  });

  test('of too many paths', async () => {
    const many = (count: number) =>
      tree.disk('read /', ...Array.from({ length: count }, (_, index): Line => `deny @/n${index}`));
    const cache = new PlanCache();
    await cache.make(many(MAX_CACHED_PROBES / 2));
    expect(cache.get(many(MAX_CACHED_PROBES / 2))).not.toBeNull();
    await cache.make(many(MAX_CACHED_PROBES));
    expect(cache.get(many(MAX_CACHED_PROBES))).toBeNull();
  });

  test('of the least recently used policies', async () => {
    const cache = new PlanCache();
    const disk = (index: number) => tree.disk('read /', `deny @/n${index}`);
    for (let index = 0; index < MAX_CACHED_PLANS; index++) await cache.make(disk(index));
    cache.get(disk(0));
    await cache.make(disk(MAX_CACHED_PLANS));
    expect([0, 1, 2, MAX_CACHED_PLANS].map((index) => cache.get(disk(index)) !== null)).toEqual([
      true,
      false,
      true,
      true,
    ]);
  });
});
