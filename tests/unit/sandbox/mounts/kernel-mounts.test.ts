import { describe, expect, test } from 'vitest';
import { nativePathOfText } from '../../../../src/files/native-path.ts';
import { type FileProbe, localProbe } from '../../../../src/sandbox/mounts/file-probe.ts';
import { type KernelMount, kernelMountsOf } from '../../../../src/sandbox/mounts/kernel-mounts.ts';
import { planMounts } from '../../../../src/sandbox/mounts/plan-mounts.ts';
import { type Line, useTree } from './tree.ts';

describe('the file systems of the kernel in a mount table', () => {
  test('are found by their type, wherever they are mounted', () => {
    const table = [
      '22 27 0:21 / /proc rw,relatime - proc proc rw',
      '23 27 0:22 / /sys rw,relatime shared:7 master:1 - sysfs sysfs rw',
      '24 27 0:6 / /dev rw,relatime - devtmpfs devtmpfs rw',
      '27 1 254:0 / / rw,relatime - ext4 /dev/vda rw',
      '31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755',
      '32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu',
      '40 22 0:40 / /proc/sys/fs/binfmt_misc rw - binfmt_misc none rw',
      '41 27 0:38 /a/b /srv/a\\040b\\012c rw,relatime - cgroup2 none rw',
      '42 27 0:21 / /srv/proc rw,relatime - proc proc rw',
      '43 27 4660:74565 / /srv/debug rw - debugfs name\\040-\\040sysfs rw',
      '44 27 0:44 / /srv/data rw - fuse.sysfs x rw',
      '',
    ].join('\n');
    expect(kernelMountsOf(table)).toEqual([
      { path: '/sys', device: 22n, access: 'read' },
      { path: '/srv/a b\nc', device: 38n, access: 'read' },
      { path: '/srv/proc', device: 21n, access: 'deny' },
      { path: '/srv/debug', device: 0x100012323445n, access: 'read' },
    ]);
  });

  test('include those of this machine', async () => {
    for (const { path, device } of await localProbe.kernelMounts()) {
      const facts = await localProbe.facts(path);
      expect(facts).toMatchObject({ identity: expect.stringMatching(`^${device}:`) });
    }
  });
});

describe('a plan with a file system of the kernel at @/k', () => {
  const tree = useTree();
  /** Takes an ordinary directory for such a mount. */
  const steps = async (access: KernelMount['access'], ...lines: Line[]) => {
    tree.make('@/k/sub/', '@/other/');
    const facts = await localProbe.facts(nativePathOfText(tree.real('@/k')));
    const device = facts === null || facts === 'unreachable' ? 0n : BigInt(facts.identity.split(':')[0]!);
    const mount = { path: nativePathOfText(tree.real('@/k')), device, access };
    const probe: FileProbe = { ...localProbe, kernelMounts: async () => [mount] };
    const plan = await planMounts(tree.disk(...lines), probe, 'program');
    return plan.steps.filter((step) => 'path' in step && step.path.startsWith(tree.real('@/k')));
  };
  const bound = (path: string) => ({ kind: 'bind', path: tree.real(path), writable: false });

  test.each<[string, KernelMount['access'], Line[], string[]]>([
    ['is read-only in a writable directory', 'read', ['read /', 'write @'], ['@/k']],
    ['is read-only on a writable disk', 'read', ['write /', 'deny @/other'], ['@/k']],
    ['is read-only although an entry names it', 'read', ['write /', 'deny @/other', 'write @/k'], ['@/k']],
    [
      'is read-only although an entry names a part',
      'read',
      ['write /', 'deny @/other', 'write @/k/sub'],
      ['@/k'],
    ],
    ['needs no mount in a read-only directory', 'read', ['read /', 'write @/other', 'write @/k/sub'], []],
    ['is shown read-only where all else is hidden', 'read', ['write @/k/sub'], ['@/k/sub']],
    ['stays hidden where all else is', 'read', ['write @/other'], []],
  ])('%s', async (_name, access, lines, expected) => {
    expect(await steps(access, ...lines)).toEqual(expected.map(bound));
  });

  test.each<[string, Line[]]>([
    ['on a readable disk', ['read /', 'write @/other']],
    ['although an entry names it', ['read /', 'write @/k']],
    ['in a writable directory', ['read /', 'write @']],
  ])('is hidden if it shows the processes of the host: %s', async (_name, lines) => {
    const path = tree.real('@/k');
    expect(await steps('deny', ...lines)).toEqual([
      { kind: 'emptyDirectory', path, mode: 0 },
      { kind: 'seal', path },
    ]);
  });

  test('is left out when something else is mounted over it', async () => {
    tree.make('@/k/');
    const mount = { path: nativePathOfText(tree.real('@/k')), device: 1n, access: 'read' } as const;
    const probe: FileProbe = { ...localProbe, kernelMounts: async () => [mount] };
    const plan = await planMounts(tree.disk('read /', 'write @'), probe, 'program');
    expect(plan.steps).not.toContainEqual(bound('@/k'));
  });
});
