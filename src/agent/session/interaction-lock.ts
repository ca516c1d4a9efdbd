/** Lets one call at a time use a session, in the order of the calls. */
export class InteractionLock {
  readonly #queue: (() => void)[] = [];
  #held = false;

  get held(): boolean {
    return this.#held;
  }

  get waiting(): number {
    return this.#queue.length;
  }

  /** Takes a free lock. Returns a function that releases it. */
  take(): () => void {
    if (this.#held) throw new Error('the lock is held');
    this.#held = true;
    return this.#releaseOnce();
  }

  /** Waits for the lock. Resolves with a function that releases it; rejects with the signal's reason when it aborts first. */
  acquire(signal?: AbortSignal): Promise<() => void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const take = () => {
        signal?.removeEventListener('abort', abandon);
        resolve(this.take());
      };
      const abandon = () => {
        this.#queue.splice(this.#queue.indexOf(take), 1);
        reject(signal?.reason);
      };
      if (!this.#held) return take();
      this.#queue.push(take);
      signal?.addEventListener('abort', abandon, { once: true });
    });
  }

  #releaseOnce(): () => void {
    let released = false;
    return () => {
      if (released) return;
      released = true;
      this.#held = false;
      this.#queue.shift()?.();
    };
  }
}
