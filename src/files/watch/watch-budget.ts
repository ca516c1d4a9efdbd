import { WATCH_MAX_DIRECTORIES, WATCH_MAX_ENTRIES } from '../limits.ts';

/** How much the watches of one connection may know together. */
export class WatchBudget {
  readonly #maxEntries: number;
  readonly #maxDirectories: number;
  #entries = 0;
  #directories = 0;

  constructor(maxEntries = WATCH_MAX_ENTRIES, maxDirectories = WATCH_MAX_DIRECTORIES) {
    this.#maxEntries = maxEntries;
    this.#maxDirectories = maxDirectories;
  }

  /** Throws if so many entries are too many by themselves. */
  check(entries: number): void {
    if (entries >= this.#maxEntries) throw new WatchLimitError(this.#refusal(this.#maxEntries, 'files'));
  }

  /** Makes room for one more entry, or throws. */
  take(isDirectory: boolean): void {
    this.check(this.#entries);
    if (isDirectory && this.#directories >= this.#maxDirectories) {
      throw new WatchLimitError(this.#refusal(this.#maxDirectories, 'directories'));
    }
    this.#entries += 1;
    if (isDirectory) this.#directories += 1;
  }

  give(isDirectory: boolean): void {
    this.#entries -= 1;
    if (isDirectory) this.#directories -= 1;
  }

  #refusal(limit: number, what: string): string {
    return `the watches of a connection cover at most ${limit} ${what}; exclude some or watch a smaller directory`;
  }
}

/** There is no room to watch all of a tree, here or in the system. */
export class WatchLimitError extends Error {
  override readonly name = 'WatchLimitError';
}
