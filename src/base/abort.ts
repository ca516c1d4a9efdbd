interface SharedListener {
  readonly callbacks: Set<() => void>;
  remove(): void;
}

const listenersBySignal = new WeakMap<AbortSignal, SharedListener>();

/**
 * Calls back when the signal aborts; the signal must not be aborted yet. Returns a function that removes the callback. All callbacks
 * of one signal share one listener: Node warns of a leak above ten listeners, but callers may use one signal for any number of calls.
 */
export function onAbort(signal: AbortSignal, callback: () => void): () => void {
  const shared = listenersBySignal.get(signal) ?? listen(signal);
  // A separate function, so that the same callback can be added twice.
  const entry = () => callback();
  shared.callbacks.add(entry);
  return () => {
    if (shared.callbacks.delete(entry) && shared.callbacks.size === 0) shared.remove();
  };
}

/**
 * Waits for the work until the signal aborts. Then it rejects with the signal's reason, or returns or throws what `onAborted` does.
 * The work itself continues; a later rejection of it is ignored.
 */
export function unlessAborted<T>(
  work: Promise<T>,
  signal: AbortSignal,
  onAborted: () => T = () => {
    throw signal.reason;
  },
): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => {
      stop();
      try {
        resolve(onAborted());
      } catch (error) {
        reject(error);
      }
    };
    const stop = signal.aborted ? () => {} : onAbort(signal, abort);
    if (signal.aborted) abort();
    work.then(
      (result) => {
        stop();
        resolve(result);
      },
      (error) => {
        stop();
        reject(error);
      },
    );
  });
}

/** Resolves after the time, or as soon as the signal aborts. With `unref` the timer does not keep Node running. */
export function sleep(ms: number, signal: AbortSignal, { unref = false } = {}): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const finish = () => {
      clearTimeout(timer);
      stop();
      resolve();
    };
    const timer = setTimeout(finish, ms);
    // In a browser a timer is a number.
    if (unref) timer.unref?.();
    const stop = onAbort(signal, finish);
  });
}

function listen(signal: AbortSignal): SharedListener {
  const callbacks = new Set<() => void>();
  const callAll = () => {
    for (const callback of [...callbacks]) callback();
  };
  const remove = () => {
    signal.removeEventListener('abort', callAll);
    listenersBySignal.delete(signal);
  };
  const shared = { callbacks, remove };
  signal.addEventListener('abort', callAll);
  listenersBySignal.set(signal, shared);
  return shared;
}
