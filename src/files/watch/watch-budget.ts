import { readFileSync } from 'node:fs';
import { FairShares } from '../../base/fair-shares.ts';
import { once } from '../../base/once.ts';
import { errorCode } from '../errors.ts';
import { WATCH_MAX_DIRECTORIES, WATCH_MAX_ENTRIES } from '../limits.ts';

/** How many entries the watches of one connection may cover together. All connections share the watches of the system. */
export class WatchBudget {
  readonly #maxEntries: number;
  readonly #maxDirectories: number;
  readonly #shared: FairShares;
  #entries = 0;
  #directories = 0;

  constructor(
    maxEntries = WATCH_MAX_ENTRIES,
    maxDirectories = WATCH_MAX_DIRECTORIES,
    shared = watchesOfSystem(),
  ) {
    this.#maxEntries = maxEntries;
    this.#maxDirectories = maxDirectories;
    this.#shared = shared;
  }

  /** Throws if this number of entries alone exceeds the limit. */
  check(entries: number): void {
    if (entries >= this.#maxEntries) throw new WatchLimitError(this.#refusal(this.#maxEntries, 'files'));
  }

  /** Reserves one more entry, or throws. */
  take(isDirectory: boolean): void {
    this.check(this.#entries);
    if (isDirectory && this.#directories >= this.#maxDirectories) {
      throw new WatchLimitError(this.#refusal(this.#maxDirectories, 'directories'));
    }
    if (isDirectory && !this.#shared.reserve(this)) {
      throw new WatchLimitError(
        `${this.#shared.refusal(this)}; exclude some directories or raise the limit of the system`,
      );
    }
    this.#entries += 1;
    if (isDirectory) this.#directories += 1;
  }

  give(isDirectory: boolean): void {
    this.#entries -= 1;
    if (!isDirectory) return;
    this.#directories -= 1;
    this.#shared.return(this);
  }

  #refusal(limit: number, what: string): string {
    return `the watches of a connection cover at most ${limit} ${what}; exclude some or watch a smaller directory`;
  }
}

/** The watches that the system allows this user. Each directory takes one (inotify(7)). */
const watchesOfSystem = once(() => {
  const name = 'watched directories (fs.inotify.max_user_watches)';
  try {
    return new FairShares(Number(readFileSync('/proc/sys/fs/inotify/max_user_watches', 'latin1')), name);
  } catch {
    return new FairShares(Number.POSITIVE_INFINITY, name);
  }
});

/** A tree exceeds a limit of the connection or of the system. */
export class WatchLimitError extends Error {
  override readonly name = 'WatchLimitError';
}

/** Throws a {@link WatchLimitError} if a system call failed for lack of watches, descriptors or memory. */
export function throwIfExhausted(error: unknown): void {
  if (error instanceof WatchLimitError) throw error;
  const code = errorCode(error);
  if (code === null || !EXHAUSTED.has(code)) return;
  const limit = code === 'ENOSPC' ? 'watches (fs.inotify.max_user_watches)' : `resources (${code})`;
  throw new WatchLimitError(`the system has no more ${limit}; exclude directories or raise its limit`);
}

const EXHAUSTED = new Set(['ENOSPC', 'EMFILE', 'ENFILE', 'ENOMEM']);
