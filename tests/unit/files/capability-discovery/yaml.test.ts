import { describe, expect, test } from 'vitest';
import { parseYaml, YamlError } from '../../../../src/files/capability-discovery/yaml.ts';
import { MAX_YAML_DEPTH } from '../../../../src/files/limits.ts';

describe('what people write', () => {
  test.each<[string, string, unknown]>([
    ['nothing', '', null],
    ['a comment', '# x\n', null],
    ['a text', 'hello', 'hello'],
    ['a mapping', 'a: 1\nb: two words\n', { a: '1', b: 'two words' }],
    ['no value', 'a:\nb: ~\nc: null', { a: null, b: null, c: null }],
    ['comments', '# x\na: 1 # y\n\n  # z\nb: a#b', { a: '1', b: 'a#b' }],
    ['a colon in a text', 'a: has: colon', { a: 'has: colon' }],
    ['a URL', 'a: http://x', { a: 'http://x' }],
    ['a mapping in a mapping', 'a:\n  b:\n    c: 1\n  d: 2\ne: 3', { a: { b: { c: '1' }, d: '2' }, e: '3' }],
    ['a list', 'a:\n  - x\n  - y z\n', { a: ['x', 'y z'] }],
    ['a list where its key begins', 'a:\n- x\n- y\nb: 1', { a: ['x', 'y'], b: '1' }],
    [
      'a list of mappings',
      '- a: 1\n  b: 2\n-\n  a: 3\n- - x\n  - y',
      [{ a: '1', b: '2' }, { a: '3' }, ['x', 'y']],
    ],
    ['single quotes', "a: 'it''s: # x' # y", { a: "it's: # x" }],
    ['double quotes', 'a: "a\\n\\u00e9\\x41\\"\\\\"', { a: 'a\né\x41"\\' }],
    ['quoted keys', '"a: b": 1\n\'c\' : 2', { 'a: b': '1', c: '2' }],
    ['a text over lines', 'a: one\n  two # c\n  three\nb: 1', { a: 'one two three', b: '1' }],
    ['a quoted text over lines', 'a: "one\n  two"', { a: 'one two' }],
    ['a literal block', 'a: |\n  x\n    y\n\n  # z\nb: 1', { a: 'x\n  y\n\n# z\n', b: '1' }],
    ['a folded block', 'a: >-\n  x\n  y\nb: 1', { a: 'x y', b: '1' }],
    ['a block that says how far it is indented', 'a: |2-\n    x\n   y\nb: >-1\n z', { a: '  x\n y', b: 'z' }],
    ['a tab behind a colon', 'a:\tx\n"b":\ty', { a: 'x', b: 'y' }],
    ['a text that begins with brackets', 'a: [x] does y # c\nb: {z}: w', { a: '[x] does y', b: '{z}: w' }],
    ['flow lists', 'a: [x, "y, z", [1], ]', { a: ['x', 'y, z', ['1']] }],
    ['flow mappings', 'a: {b: 1, "c": {d: [e]}, f}', { a: { b: '1', c: { d: ['e'] }, f: null } }],
    ['empty ones', 'a: {}\nb: []', { a: {}, b: [] }],
    ['a flow over lines', 'a: [x,\n  y]', { a: ['x', 'y'] }],
    ['lines of Windows', 'a: 1\r\nb:\r\n  - 2\r\n', { a: '1', b: ['2'] }],
    [
      'a name that objects have',
      '__proto__: 1\nconstructor: 2',
      JSON.parse('{"__proto__":"1","constructor":"2"}'),
    ],
  ])('%s', (_, text, value) => {
    expect(parseYaml(text)).toEqual(value);
  });
});

describe('what is refused', () => {
  test.each([
    ['an anchor', 'a: &x 1'],
    ['an alias', 'a: *x'],
    ['a tag', 'a: !!str x'],
    ['a second document', 'a: 1\n---\nb: 2'],
    ['a tab', '\ta: 1'],
    ['a key twice', 'a: 1\na: 2'],
    ['an open bracket', 'a: [x'],
    ['an open quote', 'a: "x'],
    ['text behind a quote', 'a: "x" y'],
    ['an unknown escape', 'a: "\\q"'],
    ['a code beyond Unicode', 'a: "\\UFFFFFFFF"'],
    ['half a surrogate pair', 'a: "\\ud800"'],
    ['text among keys', 'a: 1\njust text'],
    [
      'depth',
      `${Array.from({ length: MAX_YAML_DEPTH + 2 }, (_, depth) => `${' '.repeat(depth)}a:`).join('\n')}`,
    ],
    ['depth in brackets', `a: ${'['.repeat(MAX_YAML_DEPTH + 2)}`],
  ])('%s', (_, text) => {
    expect(() => parseYaml(text)).toThrow(YamlError);
  });
});

test('takes time in proportion to the text, however odd', () => {
  for (const text of [
    `a: ${'"\\'.repeat(200_000)}`,
    `a: ${'[,'.repeat(200_000)}`,
    `${'- '.repeat(200_000)}`,
  ]) {
    expect(() => parseYaml(text)).toThrow(YamlError);
  }
});

test('takes time in proportion to what looks like comments', () => {
  expect(parseYaml(`a: b${' #'.repeat(200_000)}\u2028c`)).toEqual({ a: 'b' });
});
