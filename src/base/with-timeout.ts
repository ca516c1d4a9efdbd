import { unlessAborted } from './abort.ts';

/** What ends the wait of {@link withTimeout} besides the work. */
interface TimeoutOptions<R> {
  /** Rejects with the signal's reason when it aborts first. */
  readonly signal?: AbortSignal;
  /** Supplies the outcome when the time is up: a value, an error that it throws, or a promise. Without it the outcome is undefined. */
  readonly onTimeout?: () => R | Promise<R>;
  /** Whether the timer lets Node exit meanwhile. */
  readonly unref?: boolean;
}

/**
 * Waits for the work, but at most so many milliseconds. The work itself continues; a later rejection of it is ignored. Work that ends
 * while a promise of `onTimeout` is pending still counts.
 */
export async function withTimeout<T, R = undefined>(
  work: Promise<T>,
  ms: number,
  { signal, onTimeout, unref = false }: TimeoutOptions<R> = {},
): Promise<T | R> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const expire = async () => onTimeout?.() as R;
  const limited = new Promise<T | R>((resolve, reject) => {
    work.then(resolve, reject);
    timer = setTimeout(() => void expire().then(resolve, reject), ms);
    if (unref) timer.unref();
  });
  try {
    return await (signal === undefined ? limited : unlessAborted(limited, signal));
  } finally {
    clearTimeout(timer);
  }
}
