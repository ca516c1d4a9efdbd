/** Waits for work until the signal aborts, and rejects with its reason then. The work itself goes on. */
export function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    signal.addEventListener('abort', abort);
    if (signal.aborted) abort();
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  });
}

/** Waits for work, but no longer than so many milliseconds, and not once the signal has aborted. */
export async function awhile(work: Promise<unknown>, ms: number, signal: AbortSignal): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const timeUp = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  try {
    await unlessAborted(Promise.race([work, timeUp]), signal);
  } finally {
    clearTimeout(timer);
  }
}
