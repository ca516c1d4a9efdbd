import type { CachedCalls } from './cached-calls.ts';
import { nativeUnavailableReason } from './native-support.ts';

/** The calls of this process, loaded on first use. A failure to load them is not retried. */
class SharedCachedCalls {
  calls: CachedCalls | null = null;
  #isAsked = false;

  prepare(): void {
    if (this.#isAsked) return;
    this.#isAsked = true;
    this.#load().catch(() => {});
  }

  async #load(): Promise<void> {
    if (nativeUnavailableReason(true) !== null) return;
    const { loadCachedCalls } = await import('./cached-calls.ts');
    this.calls = await loadCachedCalls();
  }
}

export const SHARED_CACHED_CALLS = new SharedCachedCalls();
