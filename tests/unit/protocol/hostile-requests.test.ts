import { expect, test } from 'vitest';
import { METHODS } from '../../../src/protocol/registry.ts';
import { METHOD_REQUESTS } from '../../hostile/index.mjs';

test('the table of hostile requests covers every method', () => {
  expect(Object.keys(METHOD_REQUESTS).sort()).toEqual(Object.keys(METHODS).sort());
});
