import { afterAll, afterEach, expect, test, vi } from 'vitest';
import { ThreadAffinity, useCpuAffinity } from '../../../../src/files/thread/thread-affinity.ts';

const calls = { current: vi.fn(() => 5), confine: vi.fn(), free: vi.fn(), yield: vi.fn() };

afterEach(() => {
  vi.resetAllMocks();
  calls.current.mockReturnValue(5);
});

afterAll(() => useCpuAffinity(unavailable));

function unavailable(): never {
  throw new Error('forbidden');
}

test('a thread stays where it was brought until it is to be elsewhere', () => {
  useCpuAffinity(() => calls);
  const place = new ThreadAffinity(77);
  place.free();
  expect(calls.free).not.toHaveBeenCalled();
  expect(place.pinToCurrentCpu()).toBe(calls.yield);
  place.pinToCurrentCpu();
  expect(calls.confine.mock.calls).toEqual([[77, 5]]);
  calls.current.mockReturnValue(6);
  place.pinToCurrentCpu();
  expect(calls.confine).toHaveBeenLastCalledWith(77, 6);
  place.free();
  place.free();
  expect(calls.free.mock.calls).toEqual([[77]]);
  place.pinToCurrentCpu();
  expect(calls.confine).toHaveBeenCalledTimes(3);
});

test('a thread that cannot be moved is left where it is', () => {
  useCpuAffinity(() => calls);
  const place = new ThreadAffinity(77);
  calls.confine.mockImplementationOnce(() => {
    throw new Error('gone');
  });
  expect(place.pinToCurrentCpu()).toBeNull();
  expect(place.pinToCurrentCpu()).toBeNull();
  place.free();
  expect(calls.confine).toHaveBeenCalledTimes(1);
  expect(calls.free).not.toHaveBeenCalled();
  expect(new ThreadAffinity(null).pinToCurrentCpu()).toBeNull();
});

test('a thread that cannot be moved any more does not stay where it was brought', () => {
  useCpuAffinity(() => calls);
  const place = new ThreadAffinity(77);
  place.pinToCurrentCpu();
  calls.current.mockReturnValue(6);
  calls.confine.mockImplementationOnce(() => {
    throw new Error('not in this group');
  });
  expect(place.pinToCurrentCpu()).toBeNull();
  expect(calls.free.mock.calls).toEqual([[77]]);
  expect(place.pinToCurrentCpu()).toBeNull();
  expect(calls.confine).toHaveBeenCalledTimes(2);
});

test('calls that cannot be loaded are not missed, and not loaded again', () => {
  const load = vi.fn(unavailable);
  useCpuAffinity(load);
  expect(load).not.toHaveBeenCalled();
  new ThreadAffinity(1);
  new ThreadAffinity(2);
  expect(load).toHaveBeenCalledTimes(1);
});
