import { expect, test, vi } from 'vitest';
import { once } from '../../../src/base/once.ts';

test.each([1, undefined, null])('once calls the function once and keeps its result %s', (result) => {
  const make = vi.fn(() => result);
  const get = once(make);
  expect(make).not.toHaveBeenCalled();
  expect([get(), get()]).toEqual([result, result]);
  expect(make).toHaveBeenCalledTimes(1);
});
