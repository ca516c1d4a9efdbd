import { Glob } from '../glob.ts';
import { GlobSet } from '../glob-set.ts';
import { textOfBytes } from './byte-text.ts';
import type { SearchQuery } from './query.ts';

/**
 * Decides by path which files of a tree are searched. Ignore files apply in addition. Both engines use it. Hidden names are
 * excluded even when an ignore file includes them. Paths are relative to the root of the search, in bytes.
 */
export class PathFilter {
  readonly #include: readonly Glob[];
  readonly #exclude: readonly Glob[];
  readonly #included: GlobSet;
  readonly #excluded: GlobSet;

  constructor({ include, exclude, includeHidden, respectIgnoreFiles }: SearchQuery) {
    this.#include = Glob.parseAll(include);
    const unwanted = [...(includeHidden ? [] : ['.*']), ...(respectIgnoreFiles ? ['.git'] : [])];
    this.#exclude = Glob.parseAll([...unwanted, ...exclude]);
    this.#included = new GlobSet(this.#include);
    this.#excluded = new GlobSet(this.#exclude);
  }

  /** Whether a directory is entered, if its ancestors are. */
  takesDirectory(path: string): boolean {
    return !this.#excluded.matches(textOf(path), true);
  }

  /** Whether a file is searched, if its ancestors are entered. */
  takesFile(path: string): boolean {
    const text = textOf(path);
    return !this.#excluded.matches(text, false) && this.#includes(text);
  }

  /** Whether a file is searched, with all its ancestors checked. */
  takesPath(path: string): boolean {
    const text = textOf(path);
    return !this.#excluded.matchesFileOrAncestor(text) && this.#includes(text);
  }

  /** A glob for directories includes everything in them. */
  #includes(text: string): boolean {
    return this.#include.length === 0 || this.#included.matchesFileOrAncestorAsDirectory(text);
  }

  /**
   * Arguments that keep ripgrep from searching files in vain. Included globs cannot be passed as `--glob`, because that overrides
   * ignore files. As a file type they do not, but a type only matches names.
   */
  get ripgrepArguments(): string[] {
    const excluded = this.#exclude.flatMap(({ forRipgrep }) =>
      forRipgrep === null ? [] : ['--glob', `!${forRipgrep}`],
    );
    const names = this.#include.map((glob) => glob.nameForRipgrep);
    const areAllNames = names.every((name) => name !== null && !name.startsWith('include:'));
    if (names.length === 0 || !areAllNames) return excluded;
    return [...excluded, ...names.flatMap((name) => ['--type-add', `wanted:${name}`]), '--type', 'wanted'];
  }
}

function textOf(path: string): string {
  return textOfBytes(Buffer.from(path, 'latin1'));
}
