import ignore, { type Ignore } from 'ignore';
import { nativePathOfText } from '../../files/native-path.ts';
import { ancestorsOf, joined, nameOf } from './tree.ts';

/** The ignore files of a directory. The rules of an earlier name override those of a later one. */
export const IGNORE_FILES = ['.execignore', '.gitignore'] as const;

/**
 * The names that are not synchronized: those that `--exclude` names, else what `.execignore` files say, else what `.gitignore` files
 * say. Among files of one name the deepest decides. The `.gitignore` files above a repository do not apply inside it.
 *
 * A `.git` directory is synchronized as a whole: a rule such as `logs/` or `build` would break the repository. Only `--exclude` and
 * `.execignore` can name `.git` itself.
 */
export class IgnoreRules {
  readonly #excluded: Ignore;
  /** By the path of the ignore file. */
  readonly #files = new Map<string, Ignore>();
  readonly #repositories = new Set<string>();

  constructor(excludes: readonly string[]) {
    this.#excluded = rulesOf(excludes.map(nativePathOfText));
  }

  /** Adds the rules of an ignore file. `text` is bytes, one per character. */
  addFile(path: string, text: string): void {
    this.#files.set(path, rulesOf(text));
  }

  /** Records that a directory has a `.git`. */
  addRepository(directory: string): void {
    this.#repositories.add(directory);
  }

  /**
   * Records that a directory is entered. Rules that match it were overridden by others, so its entries are matched by their own names.
   */
  enter(directory: string): void {
    if (directory === '' || isInsideGit(directory)) return;
    const keep = (rules: Ignore | undefined, level: string) => {
      const path = `${relativeTo(level, directory)}/`;
      if (rules?.ignores(path)) rules.add(`!/${path.replace(/[\\*?[\] ]/g, '\\$&')}`);
    };
    keep(this.#excluded, '');
    for (const level of ['', ...ancestorsOf(directory)]) {
      for (const file of IGNORE_FILES) keep(this.#files.get(joined(level, file)), level);
    }
  }

  /** Whether an entry is ignored. The directories above it are not. */
  ignores(path: string, isDirectory: boolean): boolean {
    if (isInsideGit(path)) return false;
    const suffix = isDirectory ? '/' : '';
    const excluded = this.#excluded.test(path + suffix);
    if (excluded.ignored || excluded.unignored) return excluded.ignored;
    const isGit = nameOf(path) === '.git';
    const levels = ['', ...ancestorsOf(path)].reverse();
    for (const file of IGNORE_FILES) {
      const isOfGit = file === '.gitignore';
      if (isOfGit && isGit) break;
      for (const level of levels) {
        const verdict = this.#files.get(joined(level, file))?.test(relativeTo(level, path) + suffix);
        if (verdict?.ignored || verdict?.unignored) return verdict.ignored;
        if (isOfGit && this.#repositories.has(level)) break;
      }
    }
    return false;
  }

  /** Whether an entry or a directory above it is ignored. */
  ignoresBelow(path: string, isDirectory: boolean): boolean {
    return ancestorsOf(path).some((above) => this.ignores(above, true)) || this.ignores(path, isDirectory);
  }

  /** Whether a change of this path can change the rules. */
  dependsOn(path: string): boolean {
    const name = nameOf(path);
    return !isInsideGit(path) && (name === '.git' || IGNORE_FILES.some((file) => file === name));
  }
}

function rulesOf(patterns: string | readonly string[]): Ignore {
  return ignore({ ignorecase: false }).add(patterns);
}

function relativeTo(level: string, path: string): string {
  return level === '' ? path : path.slice(level.length + 1);
}

/** Whether a path is below a `.git`. */
function isInsideGit(path: string): boolean {
  return ancestorsOf(path).some((above) => nameOf(above) === '.git');
}
