interface Shared {
  readonly listeners: Set<() => void>;
  stop(): void;
}

const sharedBy = new WeakMap<AbortSignal, Shared>();

/**
 * Calls back when the signal aborts; it must not have done so yet. Returns what takes it back. All who wait for one signal share
 * one listener on it: Node takes more than ten for a leak and warns, but a caller may use a signal for any number of calls.
 */
export function onAbort(signal: AbortSignal, callback: () => void): () => void {
  const shared = sharedBy.get(signal) ?? share(signal);
  // A function of its own, so that one callback can be added twice.
  const listener = () => callback();
  shared.listeners.add(listener);
  return () => {
    if (shared.listeners.delete(listener) && shared.listeners.size === 0) shared.stop();
  };
}

function share(signal: AbortSignal): Shared {
  const listeners = new Set<() => void>();
  const tell = () => {
    for (const listener of [...listeners]) listener();
  };
  const stop = () => {
    signal.removeEventListener('abort', tell);
    sharedBy.delete(signal);
  };
  const shared = { listeners, stop };
  signal.addEventListener('abort', tell);
  sharedBy.set(signal, shared);
  return shared;
}
