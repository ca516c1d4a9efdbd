import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { nativePathOfBytes } from '../../../../src/files/native-path.ts';
import { globMatches } from '../../../../src/sandbox/policy/deny-glob.ts';
import { policyOf } from '../../../../src/sandbox/policy/normalize.ts';
import { globExpression } from '../../../../src/sandbox/seatbelt/glob-expression.ts';
import { seatbeltProfile } from '../../../../src/sandbox/seatbelt/seatbelt-profile.ts';
import { native } from '../native.ts';
import { at, type Entry, glob, profile, special } from '../policy/contexts.ts';

function fileRules(...entries: Entry[]): string[] {
  const whole = seatbeltProfile(policyOf(profile(entries), { cwd: null, tmpdir: undefined })).split('\n');
  const common = seatbeltProfile({ disk: 'unrestricted', network: 'restricted' }).split('\n').slice(0, -2);
  expect(whole.slice(0, common.length)).toEqual(common);
  return whole.slice(common.length, -1);
}

test('everything is closed to begin with', () => {
  const text = seatbeltProfile({ disk: 'unrestricted', network: 'restricted' });
  expect(text.startsWith('(version 1)\n(deny default)\n')).toBe(true);
  expect(text.endsWith('(allow file-read* file-write* (subpath "/"))\n')).toBe(true);
  expect(text).not.toContain('network');
  expect(seatbeltProfile({ disk: 'unrestricted', network: 'enabled' })).toContain(
    '\n(allow network* system-socket)\n',
  );
});

test('a workspace', () => {
  expect(
    fileRules(special('root', 'read'), at('/w', 'write'), at('/w/a/b', 'deny'), at('/w/a/b/c', 'write')),
  ).toEqual([
    '(allow file-read* (subpath "/"))',
    '(deny file-write* (subpath "/"))',
    '(allow file-read* file-write* (subpath "/w"))',
    ...['.agents', '.aws', '.codex', '.git'].flatMap((name) => [
      `(allow file-read* (subpath "/w/${name}"))`,
      `(deny file-write* (subpath "/w/${name}"))`,
      `(deny file-write-unlink (literal "/w/${name}") (literal "/w"))`,
    ]),
    '(deny file-read* file-write* (subpath "/w/a/b"))',
    '(deny file-write-unlink (literal "/w/a/b") (literal "/w/a") (literal "/w"))',
    '(allow file-read* file-write* (subpath "/w/a/b/c"))',
    ...['.agents', '.aws', '.codex', '.git'].flatMap((name) => [
      `(allow file-read* (subpath "/w/a/b/c/${name}"))`,
      `(deny file-write* (subpath "/w/a/b/c/${name}"))`,
      `(deny file-write-unlink (literal "/w/a/b/c/${name}") (literal "/w/a/b/c") (literal "/w/a") (literal "/w"))`,
    ]),
  ]);
});

test('a closed disk with the platform, links of the system and special characters', () => {
  expect(fileRules(special('minimal', 'read'), at('/tmp/a%22b%5C', 'read'), glob('/var/x/*.env'))).toEqual([
    '(deny file-read* file-write* (subpath "/"))',
    '(allow file-read* (subpath "/bin") (subpath "/sbin") (subpath "/usr") (subpath "/System") (subpath "/Library/Apple") (subpath "/etc") (subpath "/private/etc") (subpath "/var/db/dyld") (subpath "/private/var/db/dyld") (subpath "/var/select") (subpath "/private/var/select") (subpath "/opt/homebrew"))',
    '(allow file-read-metadata (literal "/private") (literal "/private/tmp") (literal "/tmp"))',
    '(allow file-read* (subpath "/tmp/a\\"b\\\\") (subpath "/private/tmp/a\\"b\\\\"))',
    '(deny file-write* (subpath "/tmp/a\\"b\\\\") (subpath "/private/tmp/a\\"b\\\\"))',
    '(deny file-read* file-write* (regex #"^/var/x/(.*/)?[^/]*\\.env$") (regex #"^/private/var/x/(.*/)?[^/]*\\.env$"))',
  ]);
});

test('what cannot be said is refused', () => {
  const disk = { base: 'read', platform: false, denyGlobs: [] } as const;
  const entries = [{ path: nativePathOfBytes('/\xff'), access: 'deny', byName: false }] as const;
  expect(() => seatbeltProfile({ disk: { ...disk, entries }, network: 'enabled' })).toThrow(/not UTF-8/);
  expect(() => globExpression(native('/w/"*'))).toThrow(/quotation mark/);
});

describe('patterns', () => {
  test.each([
    '/w/*.env',
    '/w/**/.env',
    '/w/a*/b',
    '/w/**',
    '/w/a?/**/b.?',
    '/w/{a,b}.{env,k*}',
    '/w/[!ab]*',
    '/w/[a-b]x',
    '/w/\\*x*',
    '/w/a.b/*,+(x)*',
    '/w/**/a/**/b',
  ])('%s denies the same as where files are looked for', (pattern) => {
    const [, text] = /^\(regex #"(.*)"\)$/.exec(globExpression(native(pattern)))!;
    const expression = new RegExp(text!);
    const name = fc.constantFrom(
      'a',
      'b',
      'ab',
      'ax',
      'bx',
      '.env',
      'a.env',
      'b.k',
      '*x',
      'a.b',
      ',+(x)',
      'c',
    );
    fc.assert(
      fc.property(
        fc.array(name, { minLength: 1, maxLength: 4 }),
        fc.constantFrom('/w', '/v', '/w/a.b'),
        (names, root) => {
          const path = `${root}/${names.join('/')}`;
          expect([path, expression.test(path)]).toEqual([
            path,
            globMatches({ pattern: native(pattern), maxDepth: null }, native(path)),
          ]);
        },
      ),
      { numRuns: 200 },
    );
  });
});
