import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import koffi from 'koffi';
import { expect, test, vi } from 'vitest';
import { loadCpuAffinity } from '../../../src/native/cpu-affinity.ts';

/** The allowed CPUs of a thread in the kernel's list format: `0-3,7`. */
const allowed = (thread: number | 'self') =>
  /^Cpus_allowed_list:\s*(.*)$/m.exec(readFileSync(`/proc/${thread}/status`, 'latin1'))![1];

test('pins a thread to one CPU and unpins it', async () => {
  const affinity = loadCpuAffinity();
  const other = spawn('sleep', ['60']);
  await once(other, 'spawn');
  try {
    const here = affinity.current();
    affinity.pin(other.pid!, here);
    expect(allowed(other.pid!)).toBe(String(here));
    affinity.unpin(other.pid!);
    expect(allowed(other.pid!)).toBe(allowed('self'));
    affinity.yield();
  } finally {
    other.kill();
  }
});

test('fails for a missing thread and for a missing CPU', () => {
  const affinity = loadCpuAffinity();
  const nobody = 2 ** 22 + 1;
  expect(() => affinity.unpin(nobody)).toThrow('sched_setaffinity failed with errno 3');
  expect(() => affinity.pin(nobody, affinity.current())).toThrow('errno 3');
  expect(() => affinity.pin(process.pid, 8_191)).toThrow('errno 22');
});

test('does not set the affinity of the calling thread when it is loaded', () => {
  const { load } = koffi;
  const called: unknown[] = [];
  const spy = vi.spyOn(koffi, 'load').mockImplementation((name) => {
    const library = load(name);
    const noted = (declared: string, ...rest: unknown[]) => {
      const call = (library.func as (...args: unknown[]) => (...args: unknown[]) => unknown)(
        declared,
        ...rest,
      );
      return (...args: unknown[]) => {
        called.push(declared);
        return call(...args);
      };
    };
    return { ...library, func: noted } as unknown as ReturnType<typeof load>;
  });
  loadCpuAffinity();
  spy.mockRestore();
  expect(called).toEqual(['int sched_getcpu()', 'sched_getaffinity']);
});
