import { expect, test } from 'vitest';
import { REFERENCE_VERSION } from '../../scripts/reference.mjs';
import { loadCases } from './cases.mjs';
import { unverifiedCases } from './reference-verified.mjs';

test(`no case has changed since the reference ${REFERENCE_VERSION} passed it`, () => {
  const areas = new Set(unverifiedCases(loadCases()).map(({ area }) => area));
  expect(
    [...areas],
    'run them on the reference and record the result: npm run conformance -- --reference --record',
  ).toEqual([]);
});

test('reports a changed or a new case as unverified', () => {
  const cases = loadCases();
  const [first, second] = [
    cases.findIndex(({ slow }) => !slow),
    cases.findIndex(({ area }) => area === 'write'),
  ];
  const changed = cases.with(first, { ...cases[first]!, about: 'something else' });
  expect(new Set(unverifiedCases(changed).map(({ area }) => area))).toEqual(new Set([cases[first]!.area]));
  const extended = [...cases, { ...cases[second]!, name: 'one-more' }];
  expect(new Set(unverifiedCases(extended).map(({ area }) => area))).toEqual(new Set(['write']));
});
