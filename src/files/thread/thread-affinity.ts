import type { CpuAffinity } from '../../native/cpu-affinity.ts';

/**
 * On which processors a thread runs. Waking it on one that sleeps, and being woken by it, takes longer than writing a small file: who
 * waits for it anyway has it run in its own place meanwhile.
 */
export class ThreadAffinity {
  readonly #thread: number;
  #calls: CpuAffinity | null;
  #confinedTo: number | null = null;

  /** Takes the system's number of the thread; where that is not known (null) it runs anywhere. */
  constructor(thread: number | null) {
    this.#thread = thread ?? 0;
    this.#calls = thread === null ? null : processorCalls();
  }

  /** Has the thread run where the caller does. Returns what lets it run; null when it may be elsewhere. */
  pinToCurrentCpu(): (() => void) | null {
    const calls = this.#calls;
    if (calls === null) return null;
    const here = calls.current();
    if (here === this.#confinedTo) return calls.yield;
    try {
      calls.confine(this.#thread, here);
    } catch {
      // What fails once is not tried again, and where the thread was brought before is no place to stay.
      this.free();
      this.#calls = null;
      return null;
    }
    this.#confinedTo = here;
    return calls.yield;
  }

  /** Lets the thread run anywhere. */
  free(): void {
    if (this.#calls === null || this.#confinedTo === null) return;
    this.#confinedTo = null;
    try {
      this.#calls.free(this.#thread);
    } catch {
      this.#calls = null;
    }
  }
}

/** From now on threads can be brought to where another one runs. The calls for that are loaded with the first such thread, if they can be. */
export function useCpuAffinity(load: () => CpuAffinity): void {
  loadCalls = load;
  calls = null;
}

let loadCalls: (() => CpuAffinity) | null = null;
let calls: CpuAffinity | null = null;

function processorCalls(): CpuAffinity | null {
  const load = loadCalls;
  loadCalls = null;
  try {
    if (load !== null) calls = load();
  } catch {}
  return calls;
}
