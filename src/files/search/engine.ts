import type { Collector } from './collector.ts';
import type { PathFilter } from './path-filter.ts';
import type { SearchQuery } from './query.ts';

/** A search that has been checked: the path exists, and the pattern may be tried. */
export interface SearchTask {
  readonly query: SearchQuery;
  readonly filter: PathFilter;
  readonly isDirectory: boolean;
  /** Takes what is found. An engine ends when it is full. */
  readonly collector: Collector;
}

/** A search that an engine has begun. */
export interface EngineRun {
  /** Resolves when everything is found or the collector is full; rejects when the search is not possible. */
  readonly finished: Promise<void>;
  /** Resolves when nothing is left of it, no process and no thread. A dead mount can delay that for ever, even after a stop. */
  readonly gone: Promise<void>;
  /** Ends it, as soon as the system permits. */
  stop(): void;
}

/** An engine that does not work on this machine or cannot be told what to search; another one may. */
export class EngineUnusable extends Error {
  override readonly name = 'EngineUnusable';
}
