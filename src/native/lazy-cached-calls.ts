import { isMainThread } from 'node:worker_threads';
import type { CachedCalls } from './cached-calls.ts';
import { nativeUnavailableReason } from './native-support.ts';

/** Returns a function that gives the calls, or null while they are not available. Its first call loads them. A failure is not retried. */
export function lazyCachedCalls(load = loadCalls): () => CachedCalls | null {
  let calls: CachedCalls | null = null;
  let requested = false;
  return () => {
    if (requested) return calls;
    requested = true;
    load().then(
      (loaded) => {
        calls = loaded;
      },
      () => {},
    );
    return null;
  };
}

async function loadCalls(): Promise<CachedCalls | null> {
  // In a worker thread Node warns of each descriptor that it closes and has not opened.
  if (!isMainThread || nativeUnavailableReason(true) !== null) return null;
  const { loadCachedCalls } = await import('./cached-calls.ts');
  return await loadCachedCalls();
}
