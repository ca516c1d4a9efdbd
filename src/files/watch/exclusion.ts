import { GlobSet, MatchBudget } from '../glob-set.ts';
import { WATCH_MAX_MATCH_STEPS } from '../limits.ts';
import { type NativePath, textOfName } from '../native-path.ts';
import { WatchLimitError } from './watch-budget.ts';

/** The paths below a root that globs exclude. */
export class Exclusion {
  readonly #globs: GlobSet;
  readonly #start: number;
  readonly #budget: MatchBudget;

  /**
   * A trailing slash of a glob is ignored. A glob for everything in a directory (`build/**`) also excludes the directory itself. Throws
   * FileError when a glob is invalid.
   */
  constructor(root: NativePath, globs: readonly string[], maxSteps = WATCH_MAX_MATCH_STEPS) {
    this.#globs = GlobSet.parse(globs.map((glob) => glob.replace(/(?<=[^/*])\/\*\*$/, '')));
    this.#start = root === '/' ? 1 : root.length + 1;
    this.#budget = new MatchBudget(maxSteps, () => new WatchLimitError(TOO_LONG));
  }

  /** Throws WatchLimitError when the globs take too long for all paths since the last `reset`. */
  excludes(path: NativePath): boolean {
    const text = textOfName(path.slice(this.#start));
    this.#budget.spend(text.length * this.#globs.stepsPerCharacter);
    return this.#globs.matches(text, true);
  }

  /** See {@link MatchBudget.pause}. */
  pause(): Promise<void> | null {
    return this.#budget.pause();
  }

  /** Begins another check of the tree. */
  reset(): void {
    this.#budget.reset();
  }
}

const TOO_LONG = 'the globs in `exclude` are too long for a tree of this size; use fewer or shorter ones';
