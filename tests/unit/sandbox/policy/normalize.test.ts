import { describe, expect, test } from 'vitest';
import type { SandboxContext, SandboxProfile } from '../../../../src/protocol/sandbox.ts';
import { policyOf } from '../../../../src/sandbox/policy/normalize.ts';
import {
  accessOf,
  isFullRead,
  isFullWrite,
  policyKey,
  type SandboxPolicy,
} from '../../../../src/sandbox/policy/policy.ts';
import { native } from '../native.ts';
import { at, type Entry, glob, inRoots, profile, special } from './contexts.ts';

const HOST = { cwd: null, tmpdir: undefined };

function policy(entries: readonly Entry[], rest?: Partial<SandboxProfile>): SandboxPolicy {
  return policyOf(profile(entries, rest), HOST);
}

/** Paths and their access as text, so that a failure shows all of them. */
function accesses(
  { disk }: SandboxPolicy,
  expected: Readonly<Record<string, string>>,
): Record<string, string> {
  return Object.fromEntries(Object.keys(expected).map((path) => [path, accessOf(disk, native(path))]));
}

describe('a policy without restrictions', () => {
  const anything = { windowsSandboxLevel: 'disabled' as const, workspaceRoots: [], useLegacyLandlock: false };

  test.each<[string, SandboxContext, string]>([
    ['disabled', { permissions: { type: 'disabled' }, ...anything }, 'enabled'],
    ['external', { permissions: { type: 'external', network: 'restricted' }, ...anything }, 'restricted'],
    [
      'unrestricted',
      {
        permissions: { type: 'managed', file_system: { type: 'unrestricted' }, network: 'enabled' },
        ...anything,
      },
      'enabled',
    ],
    ['a writable root', profile([special('root', 'write')]), 'restricted'],
    ['a writable path /', profile([at('/', 'write')]), 'restricted'],
    [
      'a writable root and a writable path',
      profile([special('root', 'write'), at('/x', 'write')]),
      'restricted',
    ],
    [
      'a read entry that a write entry overrides',
      profile([special('root', 'write'), at('/x', 'read'), at('/x', 'write')]),
      'restricted',
    ],
    ['legacy landlock', profile([special('root', 'write')], { useLegacyLandlock: true }), 'restricted'],
  ])('%s', (_, context, network) => {
    const found = policyOf(context, HOST);
    expect(found).toEqual({ disk: 'unrestricted', network });
    expect([isFullRead(found), isFullWrite(found)]).toEqual([true, true]);
  });
});

describe('the access to paths', () => {
  test.each<[string, SandboxPolicy, Record<string, string>]>([
    ['nothing without an entry', policy([]), { '/': 'deny', '/x': 'deny' }],
    [
      'the longest entry wins',
      policy([at('/a', 'write'), at('/a/b', 'read'), at('/a/b/c', 'deny'), at('/a/b/c/d', 'write')]),
      {
        '/a': 'write',
        '/a/x': 'write',
        '/a/b': 'read',
        '/a/bb': 'write',
        '/a/b/c/x': 'deny',
        '/a/b/c/d/e': 'write',
        '/ab': 'deny',
      },
    ],
    ['deny before write', policy([at('/a', 'write'), at('/a', 'deny')]), { '/a': 'deny' }],
    ['write before read', policy([at('/a', 'write'), at('/a', 'read')]), { '/a': 'write' }],
    ['none is deny', policy([special('root', 'read'), at('/a', 'none')]), { '/a/b': 'deny', '/b': 'read' }],
    ['a readable root', policy([special('root', 'read')]), { '/': 'read', '/x': 'read' }],
    ['a denied root', policy([special('root', 'deny'), at('/a', 'read')]), { '/': 'deny', '/a': 'read' }],
    [
      'a read entry does not allow a denied path',
      policy([
        special('root', 'read'),
        at('/a', 'deny'),
        at('/a/b', 'read'),
        at('/a/b/c', 'read'),
        at('/a/b/d', 'write'),
      ]),
      { '/a/b': 'deny', '/a/b/c': 'deny', '/a/b/d': 'write', '/c': 'read' },
    ],
    [
      'the platform',
      policy([special('minimal', 'read'), at('/etc/x', 'deny'), at('/usr', 'deny')]),
      {
        '/bin/sh': 'read',
        '/etc': 'read',
        '/etc/x/y': 'deny',
        '/usr/bin': 'deny',
        '/lib64': 'read',
        '/nix/store/x': 'read',
        '/nix': 'deny',
        '/opt': 'deny',
      },
    ],
    ['a writable platform is readable', policy([special('minimal', 'write')]), { '/bin': 'read' }],
    ['a denied platform says nothing', policy([special('minimal', 'deny')]), { '/bin': 'deny' }],
    [
      'the platform in a readable root',
      policy([special('root', 'read'), special('minimal', 'read'), at('/usr', 'write')]),
      { '/usr/x': 'write', '/bin': 'read' },
    ],
    [
      'the workspace roots',
      policy([inRoots('write'), inRoots('read', 'docs/./a/')], {
        workspaceRoots: ['file:///w', 'file:///v%20w'],
      }),
      { '/w': 'write', '/v w/x': 'write', '/w/docs': 'write', '/w/docs/a/b': 'read', '/v w/docs/a': 'read' },
    ],
    ['cwd is no workspace root', policy([inRoots('write')], { workspaceRoots: [] }), { '/w': 'deny' }],
    [
      'the older name of the workspace roots',
      policy([{ path: { type: 'special', value: { kind: 'current_working_directory' } }, access: 'write' }]),
      { '/w': 'write' },
    ],
    [
      'another context',
      policy([inRoots('write')], { policyContext: { cwd: 'file:///v', workspaceRoots: ['file:///v'] } }),
      { '/w': 'deny', '/v': 'write' },
    ],
    [
      'a context without roots',
      policy([inRoots('write')], { policyContext: { workspaceRoots: [] } }),
      { '/w': 'deny' },
    ],
    ['slash tmp', policy([special('slash_tmp', 'write')]), { '/tmp/x': 'write' }],
    ['no tmpdir', policy([special('tmpdir', 'write')]), { '/tmp': 'deny' }],
    [
      'an unknown special path',
      policy([{ path: { type: 'special', value: { kind: 'unknown', path: '/a' } }, access: 'write' }]),
      { '/a': 'deny' },
    ],
    [
      'a glob for reading has no effect',
      policy([special('root', 'read'), glob('/w/**', 'read'), glob('/w/**', 'write')]),
      { '/w/x': 'read' },
    ],
    [
      'deny globs',
      policy([
        special('root', 'read'),
        inRoots('write'),
        glob('/w/**/.env'),
        glob('*.key'),
        glob('codex-project-roots:///s/*.pem'),
        glob('a*/b'),
      ]),
      {
        '/w/.env': 'deny',
        '/w/x/y/.env': 'deny',
        '/w/.envy': 'write',
        '/w/x.key': 'deny',
        '/w/x/y.key': 'deny',
        '/x.key': 'read',
        '/w/s/a.pem': 'deny',
        '/w/a.pem': 'write',
        '/w/a1/b': 'deny',
        '/w/x/a1/b': 'write',
      },
    ],
    [
      'a read entry in a denied directory, with another name between them in byte order',
      policy([special('root', 'read'), at('/a', 'deny'), at('/a-b', 'write'), at('/a/c', 'read')]),
      { '/a': 'deny', '/a-b': 'write', '/a/c': 'deny', '/a/c/d': 'deny' },
    ],
    [
      'globs below several roots',
      policy([glob('codex-project-roots://*.x'), inRoots('write')], {
        workspaceRoots: ['file:///w', 'file:///[v]'],
      }),
      { '/w/a.x': 'deny', '/[v]/a/b.x': 'deny', '/v/a.x': 'deny', '/[v]/a': 'write' },
    ],
    [
      'a glob that overrides an entry',
      policy([at('/a', 'write'), at('/a/.env', 'write'), glob('/a/*.env')]),
      { '/a/.env': 'deny' },
    ],
    [
      'a glob without a slash and with multibyte characters',
      policy([special('root', 'read'), glob('/ä/?.ö')]),
      { '/ä/ü.ö': 'deny', '/ä/üü.ö': 'read' },
    ],
  ])('%s', (_, found, expected) => {
    expect(accesses(found, expected)).toEqual(expected);
  });

  test('globs have the depth of the policy', () => {
    const found = policyOf(
      {
        ...(profile([]) as SandboxProfile),
        permissions: {
          type: 'managed',
          file_system: {
            type: 'restricted',
            entries: [special('root', 'read'), glob('/w/**/.env')],
            glob_scan_max_depth: 2,
          },
          network: 'enabled',
        },
      },
      HOST,
    );
    const expected = { '/w/.env': 'deny', '/w/a/.env': 'deny', '/w/a/b/.env': 'read' };
    expect(accesses(found, expected)).toEqual(expected);
    expect(found.network).toBe('enabled');
  });

  test.each([
    ['/t/x/', '/t/x'],
    ['/t//./x', '/t/x'],
    ['/täg', '/täg'],
  ])('the temporary directory %s', (tmpdir, path) => {
    const found = policyOf(profile([special('tmpdir', 'write')]), { cwd: null, tmpdir });
    expect(accessOf(found.disk, native(path))).toBe('write');
  });

  test.each(['', 't', './t'])('ignores the temporary directory %j', (tmpdir) => {
    const found = policyOf(profile([special('tmpdir', 'write')]), { cwd: null, tmpdir });
    expect(found).toEqual(policy([]));
  });
});

describe('protected names', () => {
  const names = ['.agents', '.aws', '.codex', '.git'];

  function protectedIn(found: SandboxPolicy): string[] {
    if (found.disk === 'unrestricted') return [];
    return found.disk.entries.filter((entry) => entry.byName).map((entry) => `${entry.path} ${entry.access}`);
  }

  const of = (...roots: string[]) =>
    roots.flatMap((root) => names.map((name) => `${root}/${name} read`)).sort();

  test.each<[string, SandboxPolicy, string[]]>([
    [
      'apply to each writable root',
      policy([special('root', 'read'), inRoots('write'), special('slash_tmp', 'write')]),
      of('/tmp', '/w'),
    ],
    ['a root within a root has them', policy([at('/w', 'write'), at('/w/v', 'write')]), of('/w', '/w/v')],
    ['do not apply to readable paths', policy([special('root', 'read')]), []],
    ['saying so changes nothing', policy([inRoots('write'), inRoots('read', '.git')]), of('/w')],
    [
      'a write entry removes the protection',
      policy([inRoots('write'), inRoots('write', '.git')]),
      [...of('/w').filter((entry) => !entry.includes('/.git')), ...of('/w/.git')].sort(),
    ],
    [
      'a deny entry takes precedence',
      policy([inRoots('write'), inRoots('deny', '.git')]),
      of('/w').filter((entry) => !entry.includes('.git')),
    ],
    [
      'apply to the root directory of a writable disk and to roots on it',
      policy([special('root', 'write'), inRoots('write'), at('/x', 'read')]),
      of('', '/w'),
    ],
    [
      'apply to a root inside a denied path',
      policy([special('root', 'write'), at('/x', 'deny'), at('/x/y', 'write')]),
      of('', '/x/y'),
    ],
  ])('%s', (_, found, expected) => {
    expect(protectedIn(found)).toEqual(expected);
  });

  test('apply only directly below a root', () => {
    const expected = {
      '/w/.git': 'read',
      '/w/.git/hooks/x': 'read',
      '/w/.gitignore': 'write',
      '/w/sub/.git': 'write',
    };
    expect(accesses(policy([inRoots('write')]), expected)).toEqual(expected);
  });
});

describe('the named forms', () => {
  const named = (context: SandboxContext, host: Parameters<typeof policyOf>[1] = HOST) =>
    policyOf(context, host);

  test('readOnly', () => {
    const found = named({ type: 'readOnly', networkAccess: false });
    expect(found).toEqual(policy([special('root', 'read')]));
    expect(named({ type: 'readOnly', networkAccess: true }).network).toBe('enabled');
  });

  const workspace = {
    type: 'workspaceWrite' as const,
    writableRoots: ['file:///v'],
    networkAccess: false,
    excludeTmpdirEnvVar: false,
    excludeSlashTmp: false,
  };

  test('workspaceWrite', () => {
    const found = named({ ...workspace, cwd: 'file:///w' }, { cwd: native('/elsewhere'), tmpdir: '/t' });
    const same = [
      special('root', 'read'),
      at('/w', 'write'),
      at('/v', 'write'),
      at('/t', 'write'),
      at('/tmp', 'write'),
    ] as const;
    expect(policyKey(found)).toBe(policyKey(policy(same)));
  });

  test('workspaceWrite without temporary directories, in the directory of the program', () => {
    const context = { ...workspace, writableRoots: [], excludeTmpdirEnvVar: true, excludeSlashTmp: true };
    const found = named({ ...context, networkAccess: true }, { cwd: native('/c'), tmpdir: '/t' });
    expect(found).toEqual({ ...policy([special('root', 'read'), at('/c', 'write')]), network: 'enabled' });
  });

  test('workspaceWrite for files needs cwd', () => {
    expect(() => named(workspace)).toThrow(/requires cwd/);
  });
});

test.each<[string, SandboxPolicy, boolean, boolean]>([
  ['a readable disk', policy([special('root', 'read'), inRoots('write')]), true, false],
  ['a denied path', policy([special('root', 'read'), at('/x', 'deny')]), false, false],
  ['a denied pattern', policy([special('root', 'write'), glob('/x/*')]), false, false],
  [
    'a writable disk with a read-only path',
    policy([special('root', 'write'), at('/x', 'read')]),
    true,
    false,
  ],
  ['no root', policy([special('minimal', 'read')]), false, false],
])('%s: whether all files are readable and writable', (_, found, readable, writable) => {
  expect([isFullRead(found), isFullWrite(found)]).toEqual([readable, writable]);
});

test('only equal policies have equal keys', () => {
  const a = policy([at('/a', 'read'), at('/b', 'write')]);
  expect(policyKey(policy([at('/b', 'write'), at('/a', 'read'), at('/a/', 'read')]))).toBe(policyKey(a));
  const others = [
    policy([at('/a', 'deny'), at('/b', 'write')]),
    { ...a, network: 'enabled' as const },
    policy([special('minimal', 'read'), at('/a', 'read'), at('/b', 'write')]),
    policy([at('/a', 'read'), at('/b', 'write'), glob('/a/*')]),
    policy([special('root', 'write')]),
  ];
  expect(new Set([a, ...others].map(policyKey)).size).toBe(6);
});
