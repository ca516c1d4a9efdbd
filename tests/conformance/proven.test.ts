import { expect, test } from 'vitest';
import { REFERENCE_VERSION } from '../../scripts/reference.mjs';
import { loadCases } from './cases.mjs';
import { unprovenCases } from './proven.mjs';

test(`every case is as it was when the reference, ${REFERENCE_VERSION}, passed it`, () => {
  const areas = new Set(unprovenCases(loadCases()).map(({ area }) => area));
  expect(
    [...areas],
    'play them, and note that they passed: npm run conformance -- --reference --record',
  ).toEqual([]);
});

test('a case that is changed in anything, or new, is not proven', () => {
  const cases = loadCases();
  const [first, second] = [
    cases.findIndex(({ slow }) => !slow),
    cases.findIndex(({ area }) => area === 'write'),
  ];
  const changed = cases.with(first, { ...cases[first]!, about: 'something else' });
  expect(new Set(unprovenCases(changed).map(({ area }) => area))).toEqual(new Set([cases[first]!.area]));
  const extended = [...cases, { ...cases[second]!, name: 'one-more' }];
  expect(new Set(unprovenCases(extended).map(({ area }) => area))).toEqual(new Set(['write']));
});
