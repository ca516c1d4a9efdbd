import { expect, test } from 'vitest';
import { suggestionFor } from '../../../src/base/suggestion.ts';

const NAMES = ['--listen', '--ping-interval', '--max-connections', '--json'];

test('a short name has at most one mistake', () => {
  expect(suggestionFor('foo', ['iot'])).toBeNull();
  expect(suggestionFor('trem', ['trap', 'term'])).toBe("did you mean 'term'?");
});

test.each([
  ['--listne', "did you mean '--listen'?"],
  ['--Listen', "did you mean '--listen'?"],
  ['--ping-interval-ms', "did you mean '--ping-interval'?"],
  ['--max-conn', "did you mean '--max-connections'?"],
  ['--jsn', "did you mean '--json'?"],
  ['--josn', "did you mean '--json'?"],
  ['--remote', null],
  ['--', null],
  ['x'.repeat(100_000), null],
])('suggests for %s: %s', (name, suggestion) => {
  expect(suggestionFor(name, NAMES)).toBe(suggestion);
});
