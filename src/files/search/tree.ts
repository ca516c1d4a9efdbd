import { type Dirent, readdirSync } from 'node:fs';
import { toFileError } from '../errors.ts';
import { SEARCH_BINARY_PROBE_BYTES, SEARCH_MAX_FILE_BYTES } from '../limits.ts';
import { childPath, type NativePath, systemPath } from '../native-path.ts';
import { matchingLines } from './content.ts';
import { IgnoreFiles } from './ignore-files.ts';
import { PathFilter } from './path-filter.ts';
import type { SearchMatch, SearchQuery } from './query.ts';
import { readRegularFile } from './regular-file.ts';

/** Receives the progress of a search. */
interface TreeListener {
  /** The matches of one file, in order. */
  found(matches: readonly SearchMatch[]): void;
  /** A text file, or lines of it, were skipped because of their size. Called once per file. */
  tooLarge(path: NativePath): void;
  /** A file or directory below the root could not be read. */
  unreadable(): void;
}

/**
 * Searches a file or a tree with Node alone, up to one match more than requested. It blocks and takes as long as the pattern needs,
 * so only a dedicated thread may call it. Links are not followed.
 */
export function searchTree(
  query: SearchQuery,
  isDirectory: boolean,
  pattern: RegExp,
  listener: TreeListener,
): void {
  const search = new TreeSearch(query, pattern, listener);
  try {
    if (isDirectory)
      search.directory(query.path, query.respectIgnoreFiles ? IgnoreFiles.of(query.path) : null);
    else search.file(query.path, true);
  } catch (error) {
    throw toFileError(error);
  }
}

class TreeSearch {
  readonly #root: NativePath;
  readonly #filter: PathFilter;
  readonly #pattern: RegExp;
  readonly #listener: TreeListener;
  #remaining: number;

  constructor(query: SearchQuery, pattern: RegExp, listener: TreeListener) {
    this.#root = query.path;
    this.#filter = new PathFilter(query);
    this.#pattern = pattern;
    this.#listener = listener;
    this.#remaining = query.maxResults + 1;
  }

  directory(path: NativePath, ignoreFiles: IgnoreFiles | null): void {
    for (const entry of listDirectory(path)) {
      if (this.#remaining === 0) return;
      const child = childPath(path, entry.name);
      if (!this.#takes(child, entry) || ignoreFiles?.ignores(entry.name, entry.isDirectory())) continue;
      try {
        if (entry.isDirectory()) this.directory(child, ignoreFiles?.enter(entry.name) ?? null);
        else this.file(child, false);
      } catch (error) {
        if (!isSystemError(error)) throw error;
        // Files come and go, and a link may replace one.
        if (!GONE.has(error.code ?? '')) this.#listener.unreadable();
      }
    }
  }

  file(path: NativePath, followSymlink: boolean): void {
    const options = { followSymlink, probeBytes: SEARCH_BINARY_PROBE_BYTES };
    const content = readRegularFile(path, options, (size, probe) => {
      if (size <= SEARCH_MAX_FILE_BYTES) return true;
      if (!probe.includes(0)) this.#listener.tooLarge(path);
      return false;
    });
    if (content === null) return;
    const matches: SearchMatch[] = [];
    let hasLongLine = false;
    const skipped = () => {
      if (!hasLongLine) this.#listener.tooLarge(path);
      hasLongLine = true;
    };
    for (const match of matchingLines(content, this.#pattern, skipped)) {
      if (this.#remaining === 0) break;
      this.#remaining--;
      matches.push({ path, ...match });
    }
    if (matches.length > 0) this.#listener.found(matches);
  }

  #takes(path: NativePath, entry: Dirent): boolean {
    const relative = path.slice(this.#root === '/' ? 1 : this.#root.length + 1);
    if (entry.isDirectory()) return this.#filter.takesDirectory(relative);
    return entry.isFile() && this.#filter.takesFile(relative);
  }
}

/** The entries in byte order, so that a truncated search is reproducible. */
function listDirectory(path: NativePath): Dirent[] {
  const entries = readdirSync(systemPath(path), { encoding: 'latin1', withFileTypes: true });
  return entries.sort((a, b) => (a.name < b.name ? -1 : 1));
}

const GONE: ReadonlySet<string> = new Set(['ENOENT', 'ENOTDIR', 'ELOOP']);

function isSystemError(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && 'errno' in error;
}
