import { WATCH_MAX_CHANGES } from '../limits.ts';
import type { NativePath } from '../native-path.ts';

export type ChangeKind = 'created' | 'modified' | 'deleted';

export interface Change {
  readonly path: NativePath;
  readonly kind: ChangeKind;
}

/** Changes in an order that leads from the old state to the new one. With `overflow` there are others besides. */
export interface ChangeBatch {
  readonly changes: readonly Change[];
  readonly overflow: boolean;
}

/** Changes as they are found. When there are too many they are all dropped, and the list only says that there were some. */
export class ChangeList {
  readonly #maxChanges: number;
  /** Paths that are listed as created or modified already; another modification adds nothing. */
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

  /** The list is not complete. */
  markIncomplete(): void {
    this.#overflow = true;
  }

  /** The changes in batches of at most `size`. The last one tells of an overflow, so that the client looks after all of them. */
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
