import { SEARCH_DEFAULT_RESULTS, SEARCH_DEFAULT_TIMEOUT_MS } from '../limits.ts';
import type { NativePath } from '../native-path.ts';

/** A search request. Everything except path and pattern is optional. */
export type SearchRequest = Pick<SearchQuery, 'path' | 'pattern'> & {
  readonly [Option in Exclude<keyof SearchQuery, 'path' | 'pattern'>]?:
    | SearchQuery[Option]
    | null
    | undefined;
};

/** Fills in the defaults. */
export function completeQuery(request: SearchRequest): SearchQuery {
  return {
    path: request.path,
    pattern: request.pattern,
    literal: request.literal ?? false,
    caseSensitive: request.caseSensitive ?? true,
    include: request.include ?? [],
    exclude: request.exclude ?? [],
    respectIgnoreFiles: request.respectIgnoreFiles ?? true,
    includeHidden: request.includeHidden ?? false,
    maxResults: request.maxResults ?? SEARCH_DEFAULT_RESULTS,
    timeoutMs: request.timeoutMs ?? SEARCH_DEFAULT_TIMEOUT_MS,
  };
}

/** What to search, and the limits of the result. */
export interface SearchQuery {
  /** A directory, or a single file, which is searched regardless of globs and ignore files. */
  readonly path: NativePath;
  readonly pattern: string;
  /** The pattern is plain text. */
  readonly literal: boolean;
  readonly caseSensitive: boolean;
  /** Globs of the files to search; all files when empty. `glob.ts` describes the syntax. */
  readonly include: readonly string[];
  /** Globs of the files and directories to exclude. */
  readonly exclude: readonly string[];
  /** Exclude the paths that ignore files name, and `.git`. */
  readonly respectIgnoreFiles: boolean;
  /** Search files and directories whose names begin with a dot. */
  readonly includeHidden: boolean;
  readonly maxResults: number;
  /** Time limit, including the wait for other searches. */
  readonly timeoutMs: number;
}

/** A matching line. */
export interface SearchMatch {
  readonly path: NativePath;
  /** From 1. */
  readonly line: number;
  /** The byte of the line where the first match starts, from 1. */
  readonly column: number;
  /** The line without its line ending. Long lines are cut around the match. */
  readonly text: string;
}

/** The limit that made the result incomplete. */
export type Truncation = 'results' | 'time' | 'size';

export type EngineName = 'ripgrep' | 'builtin';

export interface SearchResult {
  /** By path in byte order, then by line. */
  readonly matches: readonly SearchMatch[];
  readonly truncated: Truncation | null;
  /** The first files that were not searched completely because of their size. */
  readonly incompleteFiles: readonly NativePath[];
  /** Files and directories that could not be read. */
  readonly unreadable: number;
  readonly engine: EngineName;
}
