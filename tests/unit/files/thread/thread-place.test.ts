import { afterAll, afterEach, expect, test, vi } from 'vitest';
import { ThreadPlace, useProcessor } from '../../../../src/files/thread/thread-place.ts';

const calls = { current: vi.fn(() => 5), confine: vi.fn(), free: vi.fn(), yield: vi.fn() };

afterEach(() => {
  vi.resetAllMocks();
  calls.current.mockReturnValue(5);
});

afterAll(() => useProcessor(unavailable));

function unavailable(): never {
  throw new Error('forbidden');
}

test('a thread stays where it was brought until it is to be elsewhere', () => {
  useProcessor(() => calls);
  const place = new ThreadPlace(77);
  place.free();
  expect(calls.free).not.toHaveBeenCalled();
  expect(place.bringHere()).toBe(calls.yield);
  place.bringHere();
  expect(calls.confine.mock.calls).toEqual([[77, 5]]);
  calls.current.mockReturnValue(6);
  place.bringHere();
  expect(calls.confine).toHaveBeenLastCalledWith(77, 6);
  place.free();
  place.free();
  expect(calls.free.mock.calls).toEqual([[77]]);
  place.bringHere();
  expect(calls.confine).toHaveBeenCalledTimes(3);
});

test('a thread that cannot be moved is left where it is', () => {
  useProcessor(() => calls);
  const place = new ThreadPlace(77);
  calls.confine.mockImplementationOnce(() => {
    throw new Error('gone');
  });
  expect(place.bringHere()).toBeNull();
  expect(place.bringHere()).toBeNull();
  place.free();
  expect(calls.confine).toHaveBeenCalledTimes(1);
  expect(calls.free).not.toHaveBeenCalled();
  expect(new ThreadPlace(null).bringHere()).toBeNull();
});

test('a thread that cannot be moved any more does not stay where it was brought', () => {
  useProcessor(() => calls);
  const place = new ThreadPlace(77);
  place.bringHere();
  calls.current.mockReturnValue(6);
  calls.confine.mockImplementationOnce(() => {
    throw new Error('not in this group');
  });
  expect(place.bringHere()).toBeNull();
  expect(calls.free.mock.calls).toEqual([[77]]);
  expect(place.bringHere()).toBeNull();
  expect(calls.confine).toHaveBeenCalledTimes(2);
});

test('calls that cannot be loaded are not missed, and not loaded again', () => {
  const load = vi.fn(unavailable);
  useProcessor(load);
  expect(load).not.toHaveBeenCalled();
  new ThreadPlace(1);
  new ThreadPlace(2);
  expect(load).toHaveBeenCalledTimes(1);
});
