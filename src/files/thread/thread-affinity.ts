import type { CpuAffinity } from '../../native/cpu-affinity.ts';

/**
 * The CPU affinity of a file thread. Waking a thread on a sleeping CPU, and being woken by it, takes longer than writing a small
 * file. While the event loop waits for the thread anyway, the thread therefore runs on the CPU of the event loop.
 */
export class ThreadAffinity {
  readonly #thread: number;
  #calls: CpuAffinity | null;
  #pinnedTo: number | null = null;

  /** `thread` is the thread id of the kernel. Without one (null) the affinity is never changed. */
  constructor(thread: number | null) {
    this.#thread = thread ?? 0;
    this.#calls = thread === null ? null : processorCalls();
  }

  /**
   * Pins the thread to the CPU of the caller. Returns the function that yields this CPU to it; null if the thread may run
   * elsewhere.
   */
  pinToCurrentCpu(): (() => void) | null {
    const calls = this.#calls;
    if (calls === null) return null;
    const here = calls.current();
    if (here === this.#pinnedTo) return calls.yield;
    try {
      calls.pin(this.#thread, here);
    } catch {
      // A failed call is not retried, and an earlier pinning must not remain.
      this.unpin();
      this.#calls = null;
      return null;
    }
    this.#pinnedTo = here;
    return calls.yield;
  }

  /** Lets the thread run on any CPU. */
  unpin(): void {
    if (this.#calls === null || this.#pinnedTo === null) return;
    this.#pinnedTo = null;
    try {
      this.#calls.unpin(this.#thread);
    } catch {
      this.#calls = null;
    }
  }
}

/** Enables pinning. `load` is called for the first thread; if it fails, threads are never pinned. */
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
