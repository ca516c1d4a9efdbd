import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { NativePath } from '../../../../src/files/native-path.ts';
import type { SandboxProfile } from '../../../../src/protocol/sandbox.ts';
import { intersect } from '../../../../src/sandbox/policy/intersect.ts';
import { policyOf } from '../../../../src/sandbox/policy/normalize.ts';
import {
  type Access,
  accessOf,
  policyKey,
  type SandboxPolicy,
} from '../../../../src/sandbox/policy/policy.ts';
import { native } from '../native.ts';
import { at, glob, profile, special } from './contexts.ts';

/** Few names, so that policies often share paths. */
const NAMES = ['a', 'b', 'usr', 'etc', '.git', 'k.env'];

const path = fc.array(fc.constantFrom(...NAMES), { maxLength: 4 }).map((names) => `/${names.join('/')}`);
const access = fc.constantFrom('deny', 'read', 'write' as const);
const entry = fc.oneof(
  { weight: 6, arbitrary: fc.tuple(path, access).map(([at_, word]) => at(at_, word)) },
  { weight: 1, arbitrary: access.map((word) => special('minimal', word)) },
  { weight: 1, arbitrary: access.map((word) => special('root', word)) },
  {
    weight: 1,
    arbitrary: fc.constantFrom('/a/*.env', '/a/**/b', '/usr/b/?').map((pattern) => glob(pattern)),
  },
);
const policy: fc.Arbitrary<SandboxPolicy> = fc
  .record({
    entries: fc.array(entry, { maxLength: 6 }),
    depth: fc.option(fc.integer({ min: 1, max: 3 }), { nil: undefined }),
    network: fc.constantFrom('restricted', 'enabled' as const),
  })
  .map(({ entries, depth, network }) => {
    const permissions: SandboxProfile['permissions'] = {
      type: 'managed',
      file_system: { type: 'restricted', entries, glob_scan_max_depth: depth },
      network,
    };
    return policyOf(profile([], { permissions }), { cwd: null, tmpdir: undefined });
  });

/** Every path of up to three names. */
const PATHS: NativePath[] = ['/', ...below('')].map(native);

function below(start: string): string[] {
  const paths = NAMES.map((name) => `${start}/${name}`);
  return start.split('/').length === 3 ? paths : paths.flatMap((path) => [path, ...below(path)]);
}

const RANK: Record<Access, number> = { deny: 0, read: 1, write: 2 };

describe('the intersection of two policies', () => {
  test('allows the lesser access everywhere', () => {
    fc.assert(
      fc.property(policy, policy, (a, b) => {
        const both = intersect(a, b);
        for (const where of PATHS) {
          const each = [accessOf(a.disk, where), accessOf(b.disk, where)];
          const lesser = each.sort((x, y) => RANK[x] - RANK[y])[0];
          if (accessOf(both.disk, where) !== lesser) throw new Error(`${where} should be ${lesser}`);
        }
        expect(both.network).toBe(a.network === b.network ? a.network : 'restricted');
      }),
      { numRuns: 300 },
    );
  });

  test('does not depend on the order', () => {
    fc.assert(
      fc.property(policy, policy, (a, b) => policyKey(intersect(a, b)) === policyKey(intersect(b, a))),
    );
  });

  test('of equal policies is the policy itself', () => {
    fc.assert(fc.property(policy, (a) => policyKey(intersect(a, a)) === policyKey(a)));
  });

  test('is unchanged by another intersection with either of them', () => {
    fc.assert(
      fc.property(policy, policy, (a, b) => {
        const both = intersect(a, b);
        for (const where of PATHS) {
          if (accessOf(intersect(both, a).disk, where) !== accessOf(both.disk, where)) return false;
        }
        return true;
      }),
      { numRuns: 60 },
    );
  });
});

test('protected names stay protected where the other policy allows writing', () => {
  const host = { cwd: null, tmpdir: undefined };
  const workspace = policyOf(profile([special('root', 'read'), at('/w', 'write')]), host);
  const lifted = policyOf(
    profile([special('root', 'read'), at('/w', 'write'), at('/w/.git', 'write')]),
    host,
  );
  const { disk } = intersect(workspace, lifted);
  expect(disk).toMatchObject({
    entries: expect.arrayContaining([{ path: '/w/.git', access: 'read', byName: true }]),
  });
});
