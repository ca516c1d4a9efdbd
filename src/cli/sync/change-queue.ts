import { onAbort } from '../../base/abort.ts';
import { MAX_CHANGES } from './limits.ts';

/** Paths that changed, and whether the entry is new. With `overflow` others may have changed too. */
export interface SideChanges {
  readonly changes: ReadonlyMap<string, { readonly isNew: boolean }>;
  readonly overflow: boolean;
}

/** Collects changes until they are taken. Beyond a limit it drops them and reports an overflow. */
export class ChangeQueue {
  readonly #maxChanges: number;
  #changes = new Map<string, { isNew: boolean }>();
  #overflow = false;
  #failure: { readonly error: unknown } | null = null;
  #wake: () => void = () => {};

  constructor(maxChanges = MAX_CHANGES) {
    this.#maxChanges = maxChanges;
  }

  add(path: string, isNew: boolean): void {
    if (this.#overflow) return;
    const known = this.#changes.get(path);
    if (known !== undefined) known.isNew ||= isNew;
    else if (this.#changes.size < this.#maxChanges) this.#changes.set(path, { isNew });
    else this.overflow();
    this.#wake();
  }

  /** Reports that anything may have changed. */
  overflow(): void {
    this.#overflow = true;
    this.#changes = new Map();
    this.#wake();
  }

  /** Ends the iteration with an error. */
  fail(error: unknown): void {
    this.#failure ??= { error };
    this.#wake();
  }

  /** Iterates over the changes, all that have come by then in one batch, until the signal aborts. */
  async *until(signal: AbortSignal): AsyncGenerator<SideChanges, void> {
    if (signal.aborted) return;
    const stop = onAbort(signal, () => this.#wake());
    try {
      while (!signal.aborted) {
        if (this.#failure !== null) throw this.#failure.error;
        if (this.#changes.size > 0 || this.#overflow) yield this.#take();
        else {
          await new Promise<void>((resolve) => {
            this.#wake = resolve;
          });
        }
      }
    } finally {
      stop();
    }
  }

  #take(): SideChanges {
    const taken = { changes: this.#changes, overflow: this.#overflow };
    this.#changes = new Map();
    this.#overflow = false;
    return taken;
  }
}
