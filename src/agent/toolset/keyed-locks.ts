import { unlessAborted } from '../../base/abort.ts';

const LOCKS = new WeakMap<object, KeyedLocks>();

/** The locks that all users of an object share. */
export function locksOf(owner: object): KeyedLocks {
  const known = LOCKS.get(owner);
  if (known !== undefined) return known;
  const locks = new KeyedLocks();
  LOCKS.set(owner, locks);
  return locks;
}

/** Runs works with the same key one after the other. */
export class KeyedLocks {
  readonly #last = new Map<string, Promise<void>>();

  /** Rejects with the signal's reason when it aborts before the work begins. */
  async run<T>(key: string, work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    const before = this.#last.get(key) ?? Promise.resolve();
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    const last = before.then(() => held);
    this.#last.set(key, last);
    try {
      await (signal === undefined ? before : unlessAborted(before, signal));
      return await work();
    } finally {
      release();
      void last.then(() => {
        if (this.#last.get(key) === last) this.#last.delete(key);
      });
    }
  }
}
