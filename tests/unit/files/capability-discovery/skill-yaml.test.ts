import { describe, expect, test } from 'vitest';
import {
  parseFrontMatter,
  parseYaml,
  YamlError,
  YamlLimitError,
} from '../../../../src/files/capability-discovery/skill-yaml.ts';
import {
  MAX_YAML_DEPTH,
  MAX_YAML_EXPANDED_LENGTH,
  MAX_YAML_LENGTH,
  MAX_YAML_TOKENS,
} from '../../../../src/files/limits.ts';

describe('parseYaml parses', () => {
  test.each<[string, string, unknown]>([
    ['an empty text', '', null],
    ['a comment', '# x\n', null],
    ['a scalar', 'hello', 'hello'],
    ['a mapping', 'a: 1\nb: two words\n', { a: '1', b: 'two words' }],
    ['null values', 'a:\nb: ~\nc: null\nd: Null', { a: null, b: null, c: null, d: null }],
    ['null in quotes as text', 'a: "null"\nb: ""', { a: 'null', b: '' }],
    ['comments', '# x\na: 1 # y\n\n  # z\nb: a#b', { a: '1', b: 'a#b' }],
    ['a URL', 'a: http://x', { a: 'http://x' }],
    ['nested mappings', 'a:\n  b:\n    c: 1\n  d: 2\ne: 3', { a: { b: { c: '1' }, d: '2' }, e: '3' }],
    ['a list', 'a:\n  - x\n  - y z\n', { a: ['x', 'y z'] }],
    ['a list at the indentation of its key', 'a:\n- x\n- y\nb: 1', { a: ['x', 'y'], b: '1' }],
    [
      'a list of mappings',
      '- a: 1\n  b: 2\n-\n  a: 3\n- - x\n  - y',
      [{ a: '1', b: '2' }, { a: '3' }, ['x', 'y']],
    ],
    ['single quotes', "a: 'it''s: # x' # y", { a: "it's: # x" }],
    ['double quotes', 'a: "a\\n\\u00e9\\x41\\"\\\\"', { a: 'a\né\x41"\\' }],
    ['quoted keys', '"a: b": 1\n\'c\' : 2', { 'a: b': '1', c: '2' }],
    ['a plain scalar over several lines', 'a: one\n  two\n  three # c\nb: 1', { a: 'one two three', b: '1' }],
    ['a quoted scalar over several lines', 'a: "one\n  two"', { a: 'one two' }],
    ['a literal block', 'a: |\n  x\n    y\n\n  # z\nb: 1', { a: 'x\n  y\n\n# z\n', b: '1' }],
    ['a folded block', 'a: >-\n  x\n  y\nb: 1', { a: 'x y', b: '1' }],
    ['a folded block with paragraphs', 'a: >\n  x\n  y\n\n  z\n   w\n  v\n', { a: 'x y\nz\n w\nv\n' }],
    ['a block that keeps its trailing lines', 'a: |+\n  x\n\n\nb: >+\n  y\n\n', { a: 'x\n\n\n', b: 'y\n\n' }],
    ['a block with an indentation indicator', 'a: |2-\n    x\n   y\nb: >-1\n z', { a: '  x\n y', b: 'z' }],
    ['a tab after a colon', 'a:\tx\n"b":\ty', { a: 'x', b: 'y' }],
    ['flow lists', 'a: [x, "y, z", [1], ]', { a: ['x', 'y, z', ['1']] }],
    ['flow mappings', 'a: {b: 1, "c": {d: [e]}, f}', { a: { b: '1', c: { d: ['e'] }, f: null } }],
    ['empty collections', 'a: {}\nb: []', { a: {}, b: [] }],
    ['a flow list over several lines', 'a: [x,\n  y]', { a: ['x', 'y'] }],
    ['Windows line endings', 'a: 1\r\nb:\r\n  - 2\r\n', { a: '1', b: ['2'] }],
    [
      'keys that every object has',
      '__proto__: 1\nconstructor: 2',
      JSON.parse('{"__proto__":"1","constructor":"2"}'),
    ],
    ['a merge key as an ordinary key', '<<: {a: 1}', { '<<': { a: '1' } }],
    ['anchors and aliases', 'a: &x [1]\nb: *x', { a: ['1'], b: ['1'] }],
    ['tags, which it ignores', 'a: !!str null\nb: !own x', { a: 'null', b: 'x' }],
    ['the markers of a document', '---\na: 1\n...\n', { a: '1' }],
  ])('%s', (_, text, value) => {
    expect(parseYaml(text)).toEqual(value);
  });
});

const TOO_DEEP = Array.from({ length: MAX_YAML_DEPTH + 2 }, (_, depth) => `${' '.repeat(depth)}a:`).join(
  '\n',
);

describe('parseYaml rejects', () => {
  test.each([
    ['an alias without an anchor', 'a: *x'],
    ['an alias to the node that contains it', 'a: &x [*x]'],
    ['a second document', 'a: 1\n---\nb: 2'],
    ['indentation by tabs', '\ta: 1'],
    ['a duplicate key', 'a: 1\na: 2'],
    ['a missing key', ': 1'],
    ['an unclosed bracket', 'a: [x'],
    ['an unclosed quote', 'a: "x'],
    ['text after a closing quote', 'a: "x" y'],
    ['an unknown escape', 'a: "\\q"'],
    ['a code point beyond Unicode', 'a: "\\UFFFFFFFF"'],
    ['a lone surrogate', 'a: "\\ud800"'],
    ['text among keys', 'a: 1\njust text'],
    ['an unquoted colon', 'a: has: colon'],
    ['blocks nested too deeply', TOO_DEEP],
    ['brackets nested too deeply', `a: ${'['.repeat(MAX_YAML_DEPTH + 2)}`],
  ])('%s', (_, text) => {
    expect(() => parseYaml(text)).toThrow(YamlError);
  });
});

describe('parseFrontMatter', () => {
  test.each<[string, string, unknown]>([
    ['a colon', 'a: has: colon', { a: 'has: colon' }],
    ['a colon and a comment', "a: don't: do # c\nb: 1", { a: "don't: do", b: '1' }],
    ['a colon in a nested value', 'a:\n  - b: c: d\n  - e', { a: [{ b: 'c: d' }, 'e'] }],
    ['a colon and Windows line endings', 'a: b: c\r\nd: e', { a: 'b: c', d: 'e' }],
    ['brackets', 'a: [x] does y # c\nb: {z}: w\nc: [d: e', { a: '[x] does y', b: '{z}: w', c: '[d: e' }],
    ['a reserved character', 'a: @x y\nb: `z` w', { a: '@x y', b: '`z` w' }],
  ])('quotes a value with %s', (_, text, value) => {
    expect(parseFrontMatter(text)).toEqual(value);
  });

  test('leaves valid values and block scalars as they are', () => {
    const text = 'a: b: c\nd: [e, {f: g}]\nh: |\n  i: j: k\n\n  l: m: n\no: "p: q"';
    expect(parseFrontMatter(text)).toEqual({
      a: 'b: c',
      d: ['e', { f: 'g' }],
      h: 'i: j: k\n\nl: m: n\n',
      o: 'p: q',
    });
  });

  test.each([
    ['text after a closing quote', 'a: "x": y'],
    ['an unclosed quote', "a: 'x: y"],
    ['a colon at the end', 'a: ends with:'],
    ['a colon on a continuation line', 'a: one\n  two: x\n  three'],
    ['a block header with text', 'a: > x: y'],
    ['a directive character', 'a: %x: y'],
    ['text among keys', 'a: b: c\njust text'],
  ])('rejects %s', (_, text) => {
    expect(() => parseFrontMatter(text)).toThrow(YamlError);
  });
});

test('rejects a text that is too long', () => {
  expect(parseYaml(`a: ${'x'.repeat(MAX_YAML_LENGTH - 3)}`)).toHaveProperty('a');
  expect(() => parseFrontMatter(`a: ${'x'.repeat(MAX_YAML_LENGTH - 2)}`)).toThrow(YamlError);
});

test('rejects a text with too many tokens', () => {
  const list = (length: number) => `a: [${'1,'.repeat(length)}]`;
  expect(parseYaml(list(MAX_YAML_TOKENS / 3 - 20))).toHaveProperty('a');
  expect(() => parseFrontMatter(list(MAX_YAML_TOKENS / 2))).toThrow('it has more than 4096 tokens');
});

test('rejects aliases that expand to too much text', () => {
  const aliases = (length: number) => `a: &a ${'x'.repeat(1_000)}\nb: [${'*a, '.repeat(length)}]`;
  expect(parseYaml(aliases(100))).toHaveProperty('b.length', 100);
  expect(() => parseYaml(aliases(MAX_YAML_EXPANDED_LENGTH / 1_000))).toThrow(
    'its aliases expand to more than 131072 characters',
  );
});

test('limits the length of an error that quotes the text', () => {
  const key = 'k'.repeat(900);
  expect(() => parseYaml(`${key}: 1\n${key}: 2`)).toThrow(/^the key k{200,250}$/);
});

describe('parsing takes time in proportion to the text', () => {
  const COUNT = MAX_YAML_LENGTH;

  test.each([
    ['escaped quotes', `a: ${'"\\'.repeat(COUNT / 4)}`],
    ['brackets and commas', `a: ${'[,'.repeat(COUNT / 4)}`],
    ['braces', `a: ${'{a: '.repeat(COUNT / 8)}`],
    ['list items', `${'- '.repeat(COUNT / 4)}`],
    ['colons', `a: ${'x: '.repeat(COUNT / 8)}x:`],
    ['lines with unclosed brackets', 'a: [b: c\n'.repeat(COUNT / 16)],
    ['spaces', `a: b: c${' '.repeat(COUNT / 2)}d: e\nf`],
    ['spaces before a key', `a: b: c\n${' '.repeat(COUNT / 2)}\td: [`],
  ])('when it rejects %s', (_, text) => {
    expect(() => parseYaml(text)).toThrow(YamlError);
    expect(() => parseFrontMatter(`${text}\n"`)).toThrow(YamlError);
  });

  test('with many comment characters', () => {
    expect(parseYaml(`a: b${' #'.repeat(COUNT / 4)}\u2028c`)).toEqual({ a: 'b' });
  });

  test('with many keys', () => {
    const keys = Array.from({ length: MAX_YAML_TOKENS / 8 }, (_, index) => `k${index}: v`);
    expect(Object.keys(parseYaml(keys.join('\n')) as object)).toHaveLength(keys.length);
  });

  test('with aliases that would expand exponentially', () => {
    const levels = Array.from({ length: 20 }, (_, level) => {
      const previous = level === 0 ? 'x' : `*l${level - 1}`;
      return `l${level}: &l${level} [${Array(10).fill(previous).join(', ')}]`;
    });
    expect(Object.keys(parseYaml(levels.slice(0, 4).join('\n')) as object)).toHaveLength(4);
    expect(() => parseYaml(levels.join('\n'))).toThrow(YamlLimitError);
  });
});
