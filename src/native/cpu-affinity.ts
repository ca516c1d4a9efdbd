import koffi from 'koffi';

/** Calls with which a thread gives its processor to another thread of the process, and waits for it without going to sleep. */
export interface CpuAffinity {
  /** The processor that this thread runs on, for now. */
  current(): number;
  /** Has a thread run on one processor only. */
  confine(thread: number, processor: number): void;
  /** Lets a thread run wherever this one may. */
  free(thread: number): void;
  /** Lets others run first that wait for this processor. */
  yield(): void;
}

/**
 * Loads the calls. Throws where one is missing, or where it cannot be asked where this thread may run. Where it runs is left alone: a
 * thread for which that was ever set, and what it starts, gets no processor that the process is given later.
 */
export function loadCpuAffinity(): CpuAffinity {
  const library = koffi.load('libc.so.6');
  const current = library.func('int sched_getcpu()');
  const giveWay = library.func('int sched_yield()');
  const getAffinity = library.func('sched_getaffinity', 'int', ['int', 'size_t', 'void *']);
  const setAffinity = library.func('sched_setaffinity', 'int', ['int', 'size_t', 'const void *']);
  const everywhere = new Uint8Array(PROCESSOR_SET_BYTES);
  const one = new Uint8Array(PROCESSOR_SET_BYTES);
  const succeeded = (name: string, result: number): void => {
    if (result < 0) throw new Error(`${name} failed with errno ${koffi.errno()}`);
  };

  const processor: CpuAffinity = {
    current: () => current(),

    confine(thread, place) {
      one.fill(0);
      one[place >> 3] = 1 << (place & 7);
      succeeded('sched_setaffinity', setAffinity(thread, one.length, one));
    },

    free(thread) {
      succeeded('sched_getaffinity', getAffinity(THIS_THREAD, everywhere.length, everywhere));
      succeeded('sched_setaffinity', setAffinity(thread, everywhere.length, everywhere));
    },

    yield() {
      giveWay();
    },
  };
  succeeded('sched_getcpu', processor.current());
  succeeded('sched_getaffinity', getAffinity(THIS_THREAD, everywhere.length, everywhere));
  return processor;
}

const THIS_THREAD = 0;
/** Room for 8,192 processors, which is as many as Linux can be built for. */
const PROCESSOR_SET_BYTES = 1_024;
