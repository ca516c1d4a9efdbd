import type { Collector } from './collector.ts';
import type { PathFilter } from './path-filter.ts';
import type { SearchQuery } from './query.ts';

/** A validated search: the path exists, and the pattern can be tried. */
export interface SearchTask {
  readonly query: SearchQuery;
  readonly filter: PathFilter;
  readonly isDirectory: boolean;
  /** Receives the matches. The engine ends when it is full. */
  readonly collector: Collector;
}

/** A running search. */
export interface EngineRun {
  /** Resolves when everything is searched or the collector is full. Rejects when the search is not possible. */
  readonly finished: Promise<void>;
  /** Resolves when its process or thread has exited. A dead mount can delay that without limit, even after `stop`. */
  readonly exited: Promise<void>;
  /** Ends the search as soon as the system permits. */
  stop(): void;
}

/** The engine does not work on this machine or cannot search this path. Another engine may. */
export class EngineUnusable extends Error {
  override readonly name = 'EngineUnusable';
}
