import { unlessAborted } from '../../base/abort.ts';

/** An attach or a detach that is under way. */
interface Pending {
  readonly type: 'attach' | 'detach';
  /** The ids and names of its process that are known. */
  readonly names: readonly (string | null)[];
  readonly settled: Promise<void>;
}

/**
 * Orders the attaches to a process and the detaches from it. The server has one attachment per connection, which all handles of a process
 * share. So a detach waits for earlier attaches: one of them may result in another handle, for which the attachment has to stay. An
 * attach waits for earlier detaches, which would end its attachment.
 */
export class AttachOrder {
  readonly #pending = new Set<Pending>();

  /** Rejects with the signal's reason when it aborts before the work begins. */
  async run<T>(
    type: Pending['type'],
    names: readonly (string | null)[],
    work: () => Promise<T>,
    signal?: AbortSignal,
  ): Promise<T> {
    const earlier = [...this.#pending].filter(
      (other) => other.type !== type && other.names.some((name) => name !== null && names.includes(name)),
    );
    let settle = () => {};
    const settled = new Promise<void>((resolve) => {
      settle = resolve;
    });
    const pending: Pending = { type, names, settled };
    this.#pending.add(pending);
    try {
      if (earlier.length > 0) {
        const waiting = Promise.all(earlier.map((other) => other.settled)).then(() => {});
        await (signal === undefined ? waiting : unlessAborted(waiting, signal));
      }
      return await work();
    } finally {
      this.#pending.delete(pending);
      settle();
    }
  }
}
