import type { ListedEntry } from './directory-listing.ts';

/** Sorts the entries by name in byte order, in place. Most listings are already sorted. */
export function inByteOrder(entries: ListedEntry[]): ListedEntry[] {
  for (let index = 1; index < entries.length; index++) {
    if (entries[index - 1]!.name > entries[index]!.name) return entries.sort(compareNames);
  }
  return entries;
}

/**
 * The first `limit` entries in byte order of all that are added. Batches are merged as they arrive, so that no single step takes
 * long and little more than the limit is in memory.
 */
export class FirstInOrder {
  readonly #limit: number;
  /** Sorted runs, each longer than the next. */
  readonly #runs: ListedEntry[][] = [];

  constructor(limit: number) {
    this.#limit = limit;
  }

  add(entries: ListedEntry[]): void {
    let run = inByteOrder(entries);
    while (this.#runs.length > 0 && this.#runs.at(-1)!.length <= run.length) {
      run = merge(this.#runs.pop()!, run, this.#limit);
    }
    this.#runs.push(run);
  }

  /** Returns the entries and clears the list. */
  take(): ListedEntry[] {
    let all: ListedEntry[] = [];
    while (this.#runs.length > 0) all = merge(this.#runs.pop()!, all, this.#limit);
    return all;
  }
}

function compareNames(left: ListedEntry, right: ListedEntry): number {
  return left.name < right.name ? -1 : 1;
}

function merge(left: ListedEntry[], right: ListedEntry[], limit: number): ListedEntry[] {
  const merged: ListedEntry[] = [];
  const length = Math.min(left.length + right.length, limit);
  for (let l = 0, r = 0; merged.length < length; ) {
    const takesLeft = r === right.length || (l < left.length && left[l]!.name < right[r]!.name);
    merged.push(takesLeft ? left[l++]! : right[r++]!);
  }
  return merged;
}
