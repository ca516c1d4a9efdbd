import { afterAll, afterEach, expect, test, vi } from 'vitest';
import { ThreadAffinity, useCpuAffinity } from '../../../../src/files/thread/thread-affinity.ts';

const calls = { current: vi.fn(() => 5), pin: vi.fn(), unpin: vi.fn(), yield: vi.fn() };

afterEach(() => {
  vi.resetAllMocks();
  calls.current.mockReturnValue(5);
});

afterAll(() => useCpuAffinity(unavailable));

function unavailable(): never {
  throw new Error('forbidden');
}

test('a thread stays pinned until another CPU is needed', () => {
  useCpuAffinity(() => calls);
  const affinity = new ThreadAffinity(77);
  affinity.unpin();
  expect(calls.unpin).not.toHaveBeenCalled();
  expect(affinity.pinToCurrentCpu()).toBe(calls.yield);
  affinity.pinToCurrentCpu();
  expect(calls.pin.mock.calls).toEqual([[77, 5]]);
  calls.current.mockReturnValue(6);
  affinity.pinToCurrentCpu();
  expect(calls.pin).toHaveBeenLastCalledWith(77, 6);
  affinity.unpin();
  affinity.unpin();
  expect(calls.unpin.mock.calls).toEqual([[77]]);
  affinity.pinToCurrentCpu();
  expect(calls.pin).toHaveBeenCalledTimes(3);
});

test('a thread that cannot be pinned is left alone', () => {
  useCpuAffinity(() => calls);
  const affinity = new ThreadAffinity(77);
  calls.pin.mockImplementationOnce(() => {
    throw new Error('gone');
  });
  expect(affinity.pinToCurrentCpu()).toBeNull();
  expect(affinity.pinToCurrentCpu()).toBeNull();
  affinity.unpin();
  expect(calls.pin).toHaveBeenCalledTimes(1);
  expect(calls.unpin).not.toHaveBeenCalled();
  expect(new ThreadAffinity(null).pinToCurrentCpu()).toBeNull();
});

test('a thread that can no longer be pinned is unpinned', () => {
  useCpuAffinity(() => calls);
  const affinity = new ThreadAffinity(77);
  affinity.pinToCurrentCpu();
  calls.current.mockReturnValue(6);
  calls.pin.mockImplementationOnce(() => {
    throw new Error('not in this group');
  });
  expect(affinity.pinToCurrentCpu()).toBeNull();
  expect(calls.unpin.mock.calls).toEqual([[77]]);
  expect(affinity.pinToCurrentCpu()).toBeNull();
  expect(calls.pin).toHaveBeenCalledTimes(2);
});

test('calls that cannot be loaded are not used, and not loaded again', () => {
  const load = vi.fn(unavailable);
  useCpuAffinity(load);
  expect(load).not.toHaveBeenCalled();
  new ThreadAffinity(1);
  new ThreadAffinity(2);
  expect(load).toHaveBeenCalledTimes(1);
});
