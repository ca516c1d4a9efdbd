import { statSync } from 'node:fs';
import ignore, { type Ignore } from 'ignore';
import { SEARCH_MAX_IGNORE_FILE_BYTES } from '../limits.ts';
import { childPath, type NativePath, parentPath, systemPath } from '../native-path.ts';
import { readRegularFile } from './regular-file.ts';

/**
 * The ignore files that apply to a directory: its own and those of its ancestors. `.rgignore` overrides `.ignore`, which overrides
 * `.gitignore`, which overrides `.git/info/exclude`. Among files of one name the deepest decides. Git's files apply with or without
 * a repository, but those above a repository do not apply inside it. These are ripgrep's rules.
 */
export class IgnoreFiles {
  readonly #directory: NativePath;
  readonly #above: IgnoreFiles | null;
  readonly #isRepository: boolean;
  readonly #rules: ReadonlyMap<string, Ignore>;

  private constructor(directory: NativePath, above: IgnoreFiles | null) {
    this.#directory = directory;
    this.#above = above;
    this.#isRepository = exists(childPath(directory, '.git'));
    this.#rules = readRules(directory);
    for (let level = above; level !== null; level = level.#above) level.#keep(directory);
  }

  /** For the root of a search, which is searched even if it is ignored. */
  static of(root: NativePath): IgnoreFiles {
    return new IgnoreFiles(root, root === '/' ? null : IgnoreFiles.of(parentPath(root)));
  }

  /** For a direct subdirectory that is not ignored. */
  enter(name: string): IgnoreFiles {
    return new IgnoreFiles(childPath(this.#directory, name), this);
  }

  /** Whether an entry of this directory is ignored. */
  ignores(name: string, isDirectory: boolean): boolean {
    const path = childPath(this.#directory, name);
    for (const file of FILES) {
      const repositoryEnds = file.startsWith('.git');
      for (let level: IgnoreFiles | null = this; level !== null; level = level.#above) {
        const verdict = level.#rules.get(file)?.test(level.#relative(path, isDirectory));
        if (verdict?.ignored) return true;
        if (verdict?.unignored) return false;
        if (repositoryEnds && level.#isRepository) break;
      }
    }
    return false;
  }

  /**
   * Records that a subdirectory is entered although rules of this level may match it, because other rules override them. Its
   * entries are then matched by their own names.
   */
  #keep(directory: NativePath): void {
    const path = this.#relative(directory, true);
    for (const rules of this.#rules.values()) {
      if (rules.ignores(path)) rules.add(`!/${path.replace(/[\\*?[\] ]/g, '\\$&')}`);
    }
  }

  #relative(path: NativePath, isDirectory: boolean): string {
    const start = this.#directory === '/' ? 1 : this.#directory.length + 1;
    return `${path.slice(start)}${isDirectory ? '/' : ''}`;
  }
}

/** Earlier names override later ones. */
const FILES = ['.rgignore', '.ignore', '.gitignore', '.git/info/exclude'] as const;

function readRules(directory: NativePath): Map<string, Ignore> {
  const rules = new Map<string, Ignore>();
  for (const file of FILES) {
    const path = childPath(directory, file);
    const lines = exists(path) ? readLines(path) : null;
    if (lines !== null) rules.set(file, ignore({ ignorecase: false }).add(lines));
  }
  return rules;
}

/** Null for a file that cannot be read; it has no rules. */
function readLines(path: NativePath): string | null {
  try {
    const options = { followSymlink: true, probeBytes: 0 };
    return (
      readRegularFile(path, options, (size) => size <= SEARCH_MAX_IGNORE_FILE_BYTES)?.toString('latin1') ??
      null
    );
  } catch {
    return null;
  }
}

/** A file that cannot be checked, such as one in another user's `.git`, counts as missing. */
function exists(path: NativePath): boolean {
  try {
    return statSync(systemPath(path), { throwIfNoEntry: false }) !== undefined;
  } catch {
    return false;
  }
}
