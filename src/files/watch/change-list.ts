import { WATCH_MAX_CHANGES } from '../limits.ts';
import type { NativePath } from '../native-path.ts';

type ChangeKind = 'created' | 'modified' | 'deleted';

interface Change {
  readonly path: NativePath;
  readonly kind: ChangeKind;
}

/** Changes in an order that leads from the old state to the new one. `overflow` means that further changes are missing. */
export interface ChangeBatch {
  readonly changes: readonly Change[];
  readonly overflow: boolean;
}

/** Collects changes. Beyond the limit it drops all of them and only reports the overflow. */
export class ChangeList {
  readonly #maxChanges: number;
  /** Paths already listed as created or modified. A further modification adds nothing. */
  readonly #fresh = new Set<NativePath>();
  #changes: Change[] = [];
  #overflow = false;
  #full = false;

  constructor(maxChanges = WATCH_MAX_CHANGES) {
    this.#maxChanges = maxChanges;
  }

  add(path: NativePath, kind: ChangeKind): void {
    if (this.#full || (kind === 'modified' && this.#fresh.has(path))) return;
    if (this.#changes.length >= this.#maxChanges) {
      this.#full = true;
      this.#overflow = true;
      this.#changes = [];
      this.#fresh.clear();
      return;
    }
    this.#changes.push({ path, kind });
    if (kind === 'deleted') this.#fresh.delete(path);
    else this.#fresh.add(path);
  }

  /** Marks the list as incomplete. */
  markIncomplete(): void {
    this.#overflow = true;
  }

  /**
   * The changes in batches of at most `size`. The last batch carries the overflow, so that the client rescans after all changes.
   */
  batches(size: number): ChangeBatch[] {
    const batches: { changes: readonly Change[]; overflow: boolean }[] = [];
    for (let start = 0; start < this.#changes.length; start += size) {
      batches.push({ changes: this.#changes.slice(start, start + size), overflow: false });
    }
    if (this.#overflow && batches.length === 0) batches.push({ changes: [], overflow: true });
    else if (this.#overflow) batches[batches.length - 1]!.overflow = true;
    return batches;
  }
}
