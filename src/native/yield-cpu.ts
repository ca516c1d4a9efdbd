import { koffi } from './koffi.ts';

/** Loads sched_yield(2), which lets other threads that wait for this CPU run first. */
export function loadYieldCpu(): () => void {
  return koffi.load('libc.so.6').func('int sched_yield()');
}
