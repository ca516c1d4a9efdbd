import { MAX_TIMER_MS } from './limits.ts';

/** Wakes waiters whenever the process changes, so that each can check its condition. */
export class ChangeSignal {
  readonly #waiters = new Set<() => void>();

  notify(): void {
    for (const check of this.#waiters) check();
  }

  /** Resolves when `done()` holds, after the timeout, or when `signal` aborts. */
  wait(done: () => boolean, timeoutMs: number, signal?: AbortSignal): Promise<void> {
    if (done() || signal?.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const finish = () => {
        this.#waiters.delete(check);
        clearTimeout(timer);
        signal?.removeEventListener('abort', finish);
        resolve();
      };
      const check = () => {
        if (done()) finish();
      };
      const timer = timeoutMs <= MAX_TIMER_MS ? setTimeout(finish, timeoutMs) : undefined;
      this.#waiters.add(check);
      signal?.addEventListener('abort', finish, { once: true });
    });
  }
}
