/** Lets one call at a time deal with a session, in the order of asking. */
export class InteractionLock {
  readonly #queue: (() => void)[] = [];
  #held = false;

  get held(): boolean {
    return this.#held;
  }

  get waiting(): number {
    return this.#queue.length;
  }

  /** Takes a lock that nobody holds. Returns what gives it back. */
  take(): () => void {
    if (this.#held) throw new Error('the lock is held');
    this.#held = true;
    return this.#releaseOnce();
  }

  /** Resolves with what gives the lock back. Rejects with the reason of the signal when that aborts first. */
  acquire(signal?: AbortSignal): Promise<() => void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const take = () => {
        signal?.removeEventListener('abort', giveUp);
        resolve(this.take());
      };
      const giveUp = () => {
        this.#queue.splice(this.#queue.indexOf(take), 1);
        reject(signal?.reason);
      };
      if (!this.#held) return take();
      this.#queue.push(take);
      signal?.addEventListener('abort', giveUp, { once: true });
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
