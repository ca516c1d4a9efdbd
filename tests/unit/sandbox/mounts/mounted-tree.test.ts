import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { accessByEntries, accessOf, type DiskPolicy } from '../../../../src/sandbox/policy/policy.ts';
import { native } from '../native.ts';
import { runSandboxed } from './run-sandboxed.ts';
import { type Line, useTree } from './tree.ts';

const tree = useTree();

/** The files of the random trees, and names that never exist. Directories end in a slash. */
const FILES = [
  '@/a/',
  '@/a/f',
  '@/a/b/',
  '@/a/b/f',
  '@/a/b/c/',
  '@/a/b/c/f',
  '@/a/.git/',
  '@/a/.git/f',
  '@/d/',
  '@/d/f',
  '@/d/k.env',
  '@/a/b/k.env',
];
const MISSING = ['@/a/none', '@/a/b/none/deep', '@/d/.git', '@/none'];

const files = fc.uniqueArray(fc.constantFrom(...FILES), { minLength: 4, maxLength: FILES.length });
const paths = FILES.map((file) => file.replace(/\/$/, ''));
const lines: fc.Arbitrary<Line[]> = fc
  .tuple(
    fc.constantFrom<Line[]>([], ['read /'], ['read /', 'minimal'], ['minimal'], ['write /'], ['read @']),
    fc.array(
      fc
        .tuple(fc.constantFrom('read', 'write', 'deny'), fc.constantFrom('@', ...paths, ...MISSING))
        .map(([access, path]): Line => `${access} ${path}`),
      { minLength: 1, maxLength: 6 },
    ),
    fc.subarray<Line>(['deny @/a/**/k.env', 'deny @/d/*'], { maxLength: 1 }),
  )
  .map((parts) => parts.flat());

/** The same paths through a link. A link that the program could change would be refused, so none is used here. */
const aliases = fc.array(fc.boolean(), { minLength: 6, maxLength: 6 });

function aliased(policy: readonly Line[], use: readonly boolean[]): Line[] {
  if (policy.includes('write /') || policy.includes('write @')) return [...policy];
  if (readsInDenied(policy) || hasContradictions(policy)) return [...policy];
  return policy.map((line, index) => (use[index] ? (line.replace(' @/a', ' @/l') as Line) : line));
}

/** A read entry inside a denied path has no effect. Through another name of the path it has. */
function readsInDenied(policy: readonly Line[]): boolean {
  const paths = (access: string) =>
    policy.flatMap((line) => (line.startsWith(`${access} `) ? [line.slice(access.length + 1)] : []));
  return paths('read').some((read) => paths('deny').some((denied) => read.startsWith(`${denied}/`)));
}

/** Of two entries for one name the wider wins. Of two names for one missing path the narrower wins. */
function hasContradictions(policy: readonly Line[]): boolean {
  const paths = policy.map((line) => line.slice(line.indexOf(' ') + 1));
  return new Set(paths).size < paths.length;
}

describe('a program can do exactly what its policy allows', () => {
  test('for random policies and trees', async () => {
    await fc.assert(
      fc.asyncProperty(files, lines, aliases, async (made, policy, use) => {
        for (const name of readdirSync(tree.path)) rmSync(`${tree.path}/${name}`, { recursive: true });
        tree.make(...made, '@/l -> a');
        // A policy without restrictions needs no sandbox.
        const disk = tree.disk(...policy, 'deny @/never/x');
        const enforced = tree.disk(...aliased(policy, use), 'deny @/never/x');
        const tries = triesOf([...paths, ...MISSING].map(tree.real));
        expect(await tryEverything(enforced, tries)).toEqual(expectedOf(disk, tries));
      }),
      { numRuns: 40 },
    );
  }, 60_000);

  interface Try {
    readonly path: string;
    readonly kind: 'directory' | 'file' | 'missing';
  }

  /** For each path, whether a shell could see the host's file and change it. */
  async function tryEverything(disk: DiskPolicy, tries: readonly Try[]): Promise<Record<string, string>> {
    for (const { path, kind } of tries) {
      if (kind === 'directory') writeFileSync(`${path}/mark`, '');
      if (kind === 'file') writeFileSync(path, 'mark');
    }
    const { code, stdout, stderr } = await runSandboxed(
      await tree.plan(disk),
      `${tries.map(scriptOf).join('\n')}\nexit 0`,
    );
    expect(`${code} ${code === 0 ? '' : stderr}`).toBe('0 ');
    const seen = new Set(stdout.split('\n'));
    return Object.fromEntries(
      tries.map((one) => [
        one.path,
        `${seen.has(`sees ${one.path}`) ? 'sees' : ''}${isChanged(one) ? ' changes' : ''}`,
      ]),
    );
  }

  function triesOf(paths: readonly string[]): Try[] {
    return paths.flatMap((path): Try[] => {
      if (existsSync(path)) return [{ path, kind: statSync(path).isDirectory() ? 'directory' : 'file' }];
      return existsSync(dirname(path)) ? [{ path, kind: 'missing' }] : [];
    });
  }

  function scriptOf({ path, kind }: Try): string {
    if (kind === 'missing') return `echo > "${path}"`;
    if (kind === 'file') return `grep -q mark "${path}" && echo "sees ${path}"; echo new >> "${path}"`;
    return `ls "${path}" | grep -q mark && echo "sees ${path}"; echo > "${path}/new"`;
  }

  function isChanged({ path, kind }: Try): boolean {
    if (kind === 'file') return readFileSync(path, 'utf8') !== 'mark';
    return existsSync(kind === 'directory' ? `${path}/new` : path);
  }

  function expectedOf(disk: DiskPolicy, tries: readonly Try[]): Record<string, string> {
    return Object.fromEntries(tries.map((one) => [one.path, outcomeOf(disk, one)]));
  }

  /** Globs deny existing files. The parents of a missing restricted path cannot be created either. */
  function outcomeOf(disk: DiskPolicy, { path, kind }: Try): string {
    const target = native(kind === 'directory' ? `${path}/new` : path);
    const mayChange = (kind === 'file' ? accessOf : accessByEntries)(disk, target) === 'write';
    if (kind === 'missing') {
      const isKept = disk.entries.some(
        (entry) => entry.access !== 'write' && !entry.byName && entry.path.startsWith(`${path}/`),
      );
      const mayMake = accessByEntries(disk, native(dirname(path))) === 'write';
      return mayChange && mayMake && !isKept ? ' changes' : '';
    }
    const maySee = (kind === 'file' ? accessOf : accessByEntries)(disk, native(path)) !== 'deny';
    return `${maySee ? 'sees' : ''}${mayChange ? ' changes' : ''}`;
  }
});

describe('a program in its mounted tree', () => {
  /** The output of the commands, one line each. A failing command gives its error message. */
  async function answers(lines: readonly Line[], commands: readonly string[]): Promise<string[]> {
    const script = commands.map((command) => `( ${tree.real(command)} ) 2>&1 || true; echo "#"`).join('\n');
    const { code, stdout, stderr } = await runSandboxed(await tree.plan(tree.disk(...lines)), script);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    return stdout
      .replaceAll(tree.path, '@')
      .split('#\n')
      .slice(0, -1)
      .map((answer) => answer.trim());
  }

  test('cannot replace a directory above a read-only one', async () => {
    tree.make('@/w/a/b/c/f');
    const [moved, made] = await answers(
      ['read /', 'write @/w', 'read @/w/a/b/c'],
      ['mv @/w/a @/w/z', 'echo evil > @/w/a/b/c/f'],
    );
    expect(moved).toMatch(/busy/);
    expect(made).toMatch(/Read-only/);
    expect(existsSync(`${tree.path}/w/z`)).toBe(false);
  });

  test('cannot move a denied file to a path where the next program could read it', async () => {
    tree.make('@/w/a/secret/key');
    const lines: Line[] = ['read /', 'write @/w', 'deny @/w/a/secret'];
    expect(await answers(lines, ['mv @/w/a @/w/z', 'mv @/w/a/secret @/w/z'])).toEqual([
      expect.stringMatching(/busy/),
      expect.stringMatching(/busy|Permission denied/),
    ]);
    expect(existsSync(tree.real('@/w/a/secret/key'))).toBe(true);
  });

  test('cannot move an inner root together with its protected names', async () => {
    tree.make('@/w/a/v/.git/config');
    const [moved, made] = await answers(
      ['read /', 'write @/w', 'write @/w/a/v'],
      ['mv @/w/a @/w/z', 'mkdir -p @/w/a/v/.git/hooks'],
    );
    expect(moved).toMatch(/busy/);
    expect(made).toMatch(/Read-only/);
  });

  test('cannot hard-link a read-only file into a writable directory', async () => {
    tree.make('@/w/r/f', '@/o');
    expect(
      await answers(['read /', 'write @/w', 'read @/w/r'], ['ln @/w/r/f @/w/f', 'ln @/o @/w/o']),
    ).toEqual([expect.stringMatching(/cross-device/i), expect.stringMatching(/cross-device/i)]);
  });

  test('sees missing protected names as empty read-only directories', async () => {
    tree.make('@/w/');
    const found = await answers(
      ['read /', 'write @/w'],
      [
        'mkdir @/w/.git',
        'echo x > @/w/.codex/config',
        'rmdir @/w/.aws',
        'ls -A @/w/.git',
        'mkdir -p @/w/sub/.git && echo made',
      ],
    );
    expect(found).toEqual([
      expect.stringMatching(/exists/),
      expect.stringMatching(/Read-only/),
      expect.stringMatching(/busy/),
      '',
      'made',
    ]);
    expect(readdirSync(tree.real('@/w'))).toEqual(['sub']);
  });

  test('writes through a link to its root, but not through links in it that lead outside', async () => {
    tree.make('@/w/', '@/o/f', '@/l -> w', '@/w/out -> ../o/f');
    const found = await answers(
      ['read /', 'write @/l'],
      ['echo 1 > @/l/a', 'cat @/w/a', 'echo evil > @/l/out'],
    );
    expect(found).toEqual(['', '1', expect.stringMatching(/Read-only/)]);
  });

  test('follows links on a hidden disk and sees nothing else', async () => {
    tree.make('@/w/f', '@/l -> m', '@/m -> @/w', '@/secret');
    const found = await answers(
      ['minimal', 'write @/l'],
      ['cat @/l/f', 'ls @', 'cat @/secret', '/bin/sh -c "echo ran"', 'ls -d /root /home /var'],
    );
    expect(found.slice(0, 2)).toEqual(['@/w/f', 'l\nm\nw']);
    expect(found[2]).toMatch(/No such file/);
    expect(found[3]).toBe('ran');
    expect(found[4]).not.toMatch(/^\//m);
  });

  test('passes through a denied directory to a granted path in it', async () => {
    tree.make('@/d/a/b/f', '@/d/x', '@/d/a/y');
    const found = await answers(
      ['read /', 'deny @/d', 'write @/d/a/b', 'read @/d/x'],
      [
        'cat @/d/a/b/f',
        'echo 1 > @/d/a/b/n',
        'cat @/d/x',
        'ls @/d',
        'cat @/d/a/y',
        'touch @/d/n',
        'touch @/d/a/n',
        'echo 1 > @/d/x',
      ],
    );
    expect(found).toEqual([
      '@/d/a/b/f',
      '',
      expect.stringMatching(/No such file/),
      expect.stringMatching(/Permission denied/),
      expect.stringMatching(/No such file/),
      expect.stringMatching(/Read-only/),
      expect.stringMatching(/Read-only/),
      expect.stringMatching(/Read-only/),
    ]);
  });

  test('cannot access denied files whose names are not UTF-8', async () => {
    tree.make('@/w/');
    writeFileSync(Buffer.from(`${tree.path}/w/\xff.env`, 'latin1'), 'secret');
    expect(await answers(['read /', 'write @/w', 'deny @/w/*.env'], ['cat @/w/*.env'])).toEqual([
      expect.stringMatching(/Permission denied/),
    ]);
  });

  test('has no kernel settings, capabilities, network or other processes', async () => {
    const found = await answers(
      ['read /'],
      [
        'cat /proc/sys/kernel/hostname > /proc/sys/kernel/hostname',
        'cd /proc && find acpi bus fs irq scsi sys sysrq-trigger -writable 2> /dev/null | head -3',
        'grep -c "^Cap.*:.0*$" /proc/self/status',
        'cat /proc/net/dev | grep -v "lo:" | wc -l',
        'ls /proc | grep -c "^[0-9]"',
        'echo x > /dev/null && echo writable',
        'echo x > /dev/shm/x && cat /dev/shm/x',
      ],
    );
    expect(found[0]).toMatch(/Read-only/);
    expect(found[1]).toBe('');
    expect(found[2]).toBe('5');
    expect(found[3]).toBe('2');
    expect(Number(found[4])).toBeLessThan(8);
    expect(found.slice(5)).toEqual(['writable', 'x']);
  });

  test('cannot read anything below a denied /proc', async () => {
    expect(await answers(['read /', 'deny /proc'], ['ls /proc'])).toEqual([
      expect.stringMatching(/Permission denied/),
    ]);
  });
});
