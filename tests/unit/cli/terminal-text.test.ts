import { spawnSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { commandLine, cutToWidth, textWidth, usesColours, visible } from '../../../src/cli/terminal-text.ts';

test.each([
  ['plain text', 'plain text'],
  ['\x1b]0;title\x07', '\\x1b]0;title\\x07'],
  ['a\nb\tc\r', 'a\\nb\\tc\\r'],
  ['\x9b31m', '\\u009b31m'],
  ['user\u202egpj.exe', 'user\\u202egpj.exe'],
  ['\u2066a\u2069\u200b\ufeff', '\\u2066a\\u2069\\u200b\\ufeff'],
  ['half \ud83d', 'half \\ud83d'],
  ['\u{e0041}', '\\U000e0041'],
  ['größe 日本 🎉', 'größe 日本 🎉'],
])('shows %j as %j', (text, expected) => {
  expect(visible(text)).toBe(expected);
});

test('a command line can be pasted into bash', () => {
  const argv = ['printf', '%s|', 'a b', "it's", '', '$HOME', '*', 'line\nbreak', "\x1b[31m'\\", 'ü', '~'];
  expect(commandLine(['sh', '-c', 'echo hi; sleep 5'])).toBe("sh -c 'echo hi; sleep 5'");
  const { stdout } = spawnSync('bash', ['-c', commandLine(argv)], { encoding: 'utf8' });
  expect(stdout).toBe(`${argv.slice(2).join('|')}|`);
});

test.each([
  ['abc', 3],
  ['日本', 4],
  ['e\u0301', 1],
  ['🎉', 2],
  ['👩‍👩‍👧', 2],
  ['ｆｕｌｌ', 8],
  ['한글', 4],
  ['größe', 5],
])('%j takes %i columns', (text, width) => {
  expect(textWidth(text)).toBe(width);
});

test.each([
  ['short', 5, 'short'],
  ['longer', 5, 'long…'],
  ['日本語', 5, '日本…'],
  ['日本語', 4, '日…'],
  ['日本語', 6, '日本語'],
])('cuts %j to %i columns', (text, columns, expected) => {
  expect(cutToWidth(text, columns)).toBe(expected);
  expect(textWidth(cutToWidth(text, columns))).toBeLessThanOrEqual(columns);
});

test.each<[Record<string, string>, boolean, boolean]>([
  [{}, true, true],
  [{}, false, false],
  [{ NO_COLOR: '1' }, true, false],
  [{ NO_COLOR: '' }, true, true],
  [{ TERM: 'dumb' }, true, false],
  [{ FORCE_COLOR: '1' }, false, true],
  [{ FORCE_COLOR: '' }, false, true],
  [{ FORCE_COLOR: '0' }, true, false],
  [{ FORCE_COLOR: '1', NO_COLOR: '1' }, false, true],
])('with %j on a terminal (%j) colours are %j', (env, isTTY, expected) => {
  expect(usesColours(env, { isTTY })).toBe(expected);
});
