import { describe, expect, test } from 'vitest';
import { PathUriError } from '../../../../src/files/path-uri.ts';
import type { SandboxContext } from '../../../../src/protocol/sandbox.ts';
import { SandboxError } from '../../../../src/sandbox/errors.ts';
import { MAX_DENY_GLOBS, MAX_POLICY_ENTRIES } from '../../../../src/sandbox/limits.ts';
import { policyOf } from '../../../../src/sandbox/policy/normalize.ts';
import { accessOf } from '../../../../src/sandbox/policy/policy.ts';
import { native } from '../native.ts';
import { at, glob, inRoots, profile } from './contexts.ts';

const HOST = { cwd: null, tmpdir: undefined };

describe('refusals', () => {
  const manyEntries = Array.from({ length: MAX_POLICY_ENTRIES + 1 }, (_, index) => at(`/e${index}`, 'read'));
  const manyRoots = Array.from({ length: MAX_POLICY_ENTRIES / 4 }, (_, index) => at(`/e${index}`, 'write'));
  const longGlobs = Array.from({ length: 10 }, (_, index) => glob(`/e${index}/*${'x'.repeat(4_000)}`));
  const manyGlobs = Array.from({ length: MAX_DENY_GLOBS + 1 }, (_, index) => glob(`/e${index}/*`));

  test.each<[string, SandboxContext, string, RegExp]>([
    ['roots without cwd', profile([inRoots('read')], { cwd: null }), 'invalid', /requires cwd/],
    ['a relative pattern without cwd', profile([glob('*.x')], { cwd: null }), 'invalid', /requires cwd/],
    [
      'a path of another platform',
      profile([at('/C:/x', 'read')]),
      'foreignRule',
      /^invalid sandbox permission path URI: 'file:\/\/\/C:\/x' is invalid/,
    ],
    [
      'a root of another platform',
      profile([], { workspaceRoots: ['file:///C:/x'] }),
      'unsuitable',
      /workspace root URI `file:\/\/\/C:\/x` is not valid/,
    ],
    [
      'a cwd of another platform',
      profile([], { cwd: 'file://host/x' }),
      'unsuitable',
      /sandbox cwd URI `file:\/\/host\/x` is not valid/,
    ],
    ['MXC', profile([], { windowsSandboxLevel: 'mxc' }), 'unsuitable', /MXC is unavailable/],
    [
      'landlock',
      profile([inRoots('write')], { useLegacyLandlock: true }),
      'invalid',
      /leave out `useLegacyLandlock`/,
    ],
    ['a subpath upwards', profile([inRoots('deny', 'a/../..')]), 'invalid', /leads out/],
    ['an absolute subpath', profile([inRoots('read', '/etc')]), 'invalid', /leads out/],
    ['a NUL in a subpath', profile([inRoots('read', 'a\0b')]), 'invalid', /leads out/],
    ['patterns that are too long together', profile(longGlobs), 'invalid', /too long together/],
    ['a broken pattern', profile([glob('/w/[a')]), 'invalid', /not well formed/],
    ['a pattern upwards', profile([glob('/w/../*')]), 'invalid', /spell the path/],
    ['a NUL in a pattern', profile([glob('/w/\0/*')]), 'invalid', /spell the path/],
    ['a pattern of the whole disk', profile([glob('/**/x')]), 'unenforceable', /whole disk/],
    ['a pattern that is a path', profile([glob('/w/x')]), 'unenforceable', /no wildcard/],
    ['too many entries', profile(manyEntries), 'invalid', /more than 2048 paths/],
    ['too many protected names', profile(manyRoots), 'invalid', /more than 2048 paths/],
    ['too many patterns', profile(manyGlobs), 'invalid', /more than 256 deny patterns/],
  ])('%s', (_, context, kind, message) => {
    const refusal = thrownBy(() => policyOf(context, HOST));
    expect(refusal).toBeInstanceOf(SandboxError);
    expect(refusal).toMatchObject({ kind, message: expect.stringMatching(message) });
  });

  test('uses the working directory of a program as cwd', () => {
    const found = policyOf(profile([inRoots('read'), glob('*.x')], { cwd: null }), {
      ...HOST,
      cwd: native('/c'),
    });
    expect(accessOf(found.disk, native('/c/a.x'))).toBe('deny');
  });

  test('reports an invalid URI as an error of the message', () => {
    expect(
      thrownBy(() => policyOf(profile([{ path: { type: 'path', path: '/x' }, access: 'read' }]), HOST)),
    ).toBeInstanceOf(PathUriError);
  });

  function thrownBy(work: () => unknown): unknown {
    try {
      work();
    } catch (error) {
      return error;
    }
    return null;
  }
});
