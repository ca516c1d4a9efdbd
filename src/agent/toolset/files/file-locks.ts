import { unlessAborted } from '../../../base/abort.ts';
import type { Call } from '../call.ts';

/** Lets calls change one file after the other, so that concurrent edits of a model do not overwrite each other. */
export class FileLocks {
  readonly #last = new Map<string, Promise<void>>();

  async run<T>({ target, signal }: Call, uri: string, work: () => Promise<T>): Promise<T> {
    const key = `${target.name}\n${uri}`;
    const before = this.#last.get(key) ?? Promise.resolve();
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    const last = before.then(() => held);
    this.#last.set(key, last);
    try {
      await unlessAborted(before, signal);
      return await work();
    } finally {
      release();
      void last.then(() => {
        if (this.#last.get(key) === last) this.#last.delete(key);
      });
    }
  }
}
