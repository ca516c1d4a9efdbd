import { expect, test } from 'vitest';
import { isObject } from '../../../src/base/is-object.ts';

test.each([
  [{}, true],
  [{ a: 1 }, true],
  [Object.create(null), true],
  [[], false],
  [null, false],
  [undefined, false],
  ['text', false],
  [() => {}, false],
])('%j is an object with members: %s', (value, expected) => {
  expect(isObject(value)).toBe(expected);
});
