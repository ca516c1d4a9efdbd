import koffi from 'koffi';

/** Calls that let a thread hand its CPU to another thread of the process and wait without sleeping. */
export interface CpuAffinity {
  /** The CPU on which the calling thread runs now. */
  current(): number;
  /** Pins a thread to one CPU. */
  pin(thread: number, cpu: number): void;
  /** Gives a thread the affinity of the calling thread. */
  unpin(thread: number): void;
  /** Lets other threads that wait for this CPU run first. */
  yield(): void;
}

/**
 * Loads the calls. Throws if one is missing or the affinity cannot be read. The affinity of the calling thread is never set: a
 * thread with an explicit affinity, and its children, would not get CPUs that the process is given later.
 */
export function loadCpuAffinity(): CpuAffinity {
  const library = koffi.load('libc.so.6');
  const current = library.func('int sched_getcpu()');
  const schedYield = library.func('int sched_yield()');
  const getAffinity = library.func('sched_getaffinity', 'int', ['int', 'size_t', 'void *']);
  const setAffinity = library.func('sched_setaffinity', 'int', ['int', 'size_t', 'const void *']);
  const ownMask = new Uint8Array(CPU_MASK_BYTES);
  const one = new Uint8Array(CPU_MASK_BYTES);
  const succeeded = (name: string, result: number): void => {
    if (result < 0) throw new Error(`${name} failed with errno ${koffi.errno()}`);
  };

  const affinity: CpuAffinity = {
    current: () => current(),

    pin(thread, cpu) {
      one.fill(0);
      one[cpu >> 3] = 1 << (cpu & 7);
      succeeded('sched_setaffinity', setAffinity(thread, one.length, one));
    },

    unpin(thread) {
      succeeded('sched_getaffinity', getAffinity(THIS_THREAD, ownMask.length, ownMask));
      succeeded('sched_setaffinity', setAffinity(thread, ownMask.length, ownMask));
    },

    yield() {
      schedYield();
    },
  };
  succeeded('sched_getcpu', affinity.current());
  succeeded('sched_getaffinity', getAffinity(THIS_THREAD, ownMask.length, ownMask));
  return affinity;
}

const THIS_THREAD = 0;
/** A mask for 8,192 CPUs, the maximum of Linux. */
const CPU_MASK_BYTES = 1_024;
