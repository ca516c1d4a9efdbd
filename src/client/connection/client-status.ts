import { onAbort } from '../../base/abort.ts';
import { Listeners } from '../../base/listeners.ts';
import { ClientError } from '../errors.ts';

/** `recovering` leads back to `connected` or to `failed`. `closed` is final; `failed` can only become `closed`. */
export type ClientState = 'connected' | 'recovering' | 'failed' | 'closed';

/** The state of a client, its listeners, and the calls that wait for a change. */
export class ClientStatus {
  readonly #listeners = new Listeners<[ClientState, ClientError | null]>('client.onStateChange');
  readonly #waiting = new Set<() => void>();
  #state: ClientState = 'connected';
  #failure: ClientError | null = null;

  get state(): ClientState {
    return this.#state;
  }

  /** Why the client is not connected; null while it is. */
  get failure(): ClientError | null {
    return this.#failure;
  }

  /** Whether the client has failed or is closed. */
  get isOver(): boolean {
    return this.#state === 'closed' || this.#state === 'failed';
  }

  /** Why calls are not possible. */
  get reason(): ClientError {
    return this.#failure ?? closedByOwner();
  }

  /** Returns a function that removes the listener. */
  onChange(listener: (state: ClientState, failure: ClientError | null) => void): () => void {
    return this.#listeners.add(listener);
  }

  /** Ignores a change that the present state does not allow. */
  change(state: ClientState, failure: ClientError | null): void {
    if (this.#state === 'closed' || (this.#state === 'failed' && state !== 'closed')) return;
    const changed = state !== this.#state;
    this.#state = state;
    this.#failure = failure;
    // Calls continue before listeners run, so that a listener's calls come after them.
    for (const wake of [...this.#waiting]) wake();
    if (changed) this.#listeners.emit(state, failure);
  }

  /** Resolves at the next change, also of the connection alone. Rejects with the reason of the signal when it aborts. */
  nextChange(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(signal.reason);
        return;
      }
      const finish = () => {
        this.#waiting.delete(finish);
        unsubscribe?.();
        if (signal?.aborted) reject(signal.reason);
        else resolve();
      };
      this.#waiting.add(finish);
      const unsubscribe = signal && onAbort(signal, finish);
    });
  }
}

export function closedByOwner(): ClientError {
  return new ClientError('closed', 'the client is closed');
}
