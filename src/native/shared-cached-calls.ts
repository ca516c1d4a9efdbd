import { isMainThread } from 'node:worker_threads';
import type { CachedCalls } from './cached-calls.ts';
import { nativeUnavailableReason } from './native-support.ts';

/** Loads the calls on first use. A failure is not retried. */
export class SharedCachedCalls {
  calls: CachedCalls | null = null;
  readonly #load: () => Promise<CachedCalls | null>;
  #requested = false;

  constructor(load = loadCalls) {
    this.#load = load;
  }

  prepare(): void {
    if (this.#requested) return;
    this.#requested = true;
    this.#load().then(
      (calls) => {
        this.calls = calls;
      },
      () => {},
    );
  }
}

/** The calls of this process. */
export const SHARED_CACHED_CALLS = new SharedCachedCalls();

async function loadCalls(): Promise<CachedCalls | null> {
  // In a worker thread Node warns of each descriptor that it closes and has not opened.
  if (!isMainThread || nativeUnavailableReason(true) !== null) return null;
  const { loadCachedCalls } = await import('./cached-calls.ts');
  return await loadCachedCalls();
}
