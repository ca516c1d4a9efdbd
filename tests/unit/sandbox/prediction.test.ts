import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { sandboxIsLikely } from '../../../src/sandbox/prediction.ts';

const folder = mkdtempSync(join(tmpdir(), 'prediction-'));
afterAll(() => rmSync(folder, { recursive: true }));

function settings(name: string, maxUserNamespaces: string): string {
  mkdirSync(join(folder, name, 'user'), { recursive: true });
  writeFileSync(join(folder, name, 'user/max_user_namespaces'), maxUserNamespaces);
  return join(folder, name);
}

test.each([
  ['bwrap on the path', '/nonexistent:/usr/bin', settings('many', '15000\n'), true],
  ['a system without the setting', '/usr/bin', '/nonexistent', true],
  ['user namespaces switched off', '/usr/bin', settings('none', '0\n'), false],
  ['no bwrap', '/nonexistent:/etc', settings('many', '15000\n'), false],
  ['no path', '', settings('many', '15000\n'), false],
])('with %s', (_, searchPath, settings, likely) => {
  expect(sandboxIsLikely(searchPath, '', settings)).toBe(likely);
});

test('with a configured bwrap that is on no path', () => {
  expect(sandboxIsLikely('', '/opt/bwrap', settings('many', '15000\n'))).toBe(true);
  expect(sandboxIsLikely('', '/opt/bwrap', settings('none', '0\n'))).toBe(false);
});

test('ignores other directories, which may hang', () => {
  symlinkSync('/usr/bin/bwrap', join(folder, 'bwrap'));
  expect(sandboxIsLikely(folder)).toBe(false);
});
