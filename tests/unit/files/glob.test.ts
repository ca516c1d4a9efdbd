import { expect, test } from 'vitest';
import { Glob } from '../../../src/files/glob.ts';
import { GlobSet } from '../../../src/files/glob-set.ts';

function matches(glob: string, path: string, isDirectory = false): boolean {
  return GlobSet.parse([glob]).matches(path, isDirectory);
}

test.each([
  ['a.ts', 'a.ts'],
  ['a.ts', 'x/y/a.ts'],
  ['*.ts', 'x/.ts'],
  ['/a.ts', 'a.ts'],
  ['./x/a.ts', 'x/a.ts'],
  ['x/a.ts', 'x/a.ts'],
  ['x/*', 'x/.hidden'],
  ['**/a', 'a'],
  ['**/a', 'x/y/a'],
  ['x/**', 'x/y/z'],
  ['x/**/z', 'x/z'],
  ['x/**/z', 'x/y/y/z'],
  ['**/x/**', 'y/x/z'],
  ['a**b', 'acdb'],
  ['?', 'é'],
  ['?', '😀'],
  ['*😀', '😀😀'],
  ['[a-c]x', 'bx'],
  ['[!a-c]x', 'dx'],
  ['[^a-c]x', 'dx'],
  ['[]x]', ']'],
  ['[!]x]', 'y'],
  ['[a-]', '-'],
  ['[{]', '{'],
  ['{a,b}.ts', 'b.ts'],
  ['{a,{b,c}d}', 'cd'],
  ['a{,b}', 'a'],
  ['{x/,}a', 'x/a'],
  ['\\*\\{\\[', '*{['],
  ['(g)/+page@1$.ts', '(g)/+page@1$.ts'],
  ['"!#"', '"!#"'],
])('%s matches %s', (glob, path) => {
  expect(matches(glob, path)).toBe(true);
});

test.each([
  ['a.ts', 'a.tsx'],
  ['a.ts', 'a.ts/b'],
  ['/a.ts', 'x/a.ts'],
  ['x/a.ts', 'y/x/a.ts'],
  ['x/*', 'x/y/z'],
  ['x/**', 'x'],
  ['x/**/z', 'x/y'],
  ['?', 'ab'],
  ['?', ''],
  ['[a-c]', 'd'],
  ['[!a]', 'a'],
  ['{a,b}', 'c'],
  ['a.c', 'abc'],
  ['x/', 'x'],
])('%s does not match %s', (glob, path) => {
  expect(matches(glob, path)).toBe(false);
});

test('a trailing slash matches directories only', () => {
  expect(matches('x/', 'y/x', true)).toBe(true);
  expect(matches('x/', 'y/x', false)).toBe(false);
});

test.each([
  ['', 'is empty'],
  ['/', 'is empty'],
  ['[a', 'without its `]`'],
  ['[a/b]', 'without its `]`'],
  ['[z-a]', 'which is empty'],
  ['[\\]]', 'backslash in a set'],
  ['{a', 'without its `}`'],
  ['a}', 'without its `{`'],
  ['a\\', 'ends in a backslash'],
  ['{a,b}'.repeat(9), 'more than 256'],
])('rejects the glob %s', (glob, message) => {
  expect(() => Glob.parseAll([glob])).toThrow(message);
});

test('limits the length of a glob and the number of globs', () => {
  expect(() => Glob.parseAll(['a'.repeat(4_097)])).toThrow('longer than 4096');
  const many = Array.from({ length: 256 }, (_, index) => `${index}`);
  expect(Glob.parseAll(many)).toHaveLength(256);
  expect(() => Glob.parseAll([...many, 'x'])).toThrow('more than 256');
});

test('matches a glob with many stars in bounded time', () => {
  expect(matches('*a'.repeat(100), `${'a'.repeat(250)}b`)).toBe(false);
  expect(matches(`${'**/a/'.repeat(100)}b`, 'a/'.repeat(1_000))).toBe(false);
});

test.each([
  ['*.ts', '/**/*.ts', '*.ts'],
  ['x y!', '/**/x\\ y\\!', 'x\\ y\\!'],
  ['x/', '/**/x/', null],
  ['x/**/é', '/x/**/é', null],
  ['a?', null, null],
  ['[ab]', null, null],
  ['a\t', null, null],
])('%s becomes the ripgrep glob %s, or the name pattern %s', (glob, path, name) => {
  expect(Glob.parseAll([glob]).map(({ forRipgrep, nameForRipgrep }) => [forRipgrep, nameForRipgrep])).toEqual(
    [[path, name]],
  );
});
