import { SEARCH_DEFAULT_RESULTS, SEARCH_DEFAULT_TIMEOUT_MS } from '../limits.ts';
import type { NativePath } from '../native-path.ts';

/** A search as it is asked for: everything but path and pattern may be left open. */
export type SearchRequest = Pick<SearchQuery, 'path' | 'pattern'> & {
  readonly [Option in Exclude<keyof SearchQuery, 'path' | 'pattern'>]?:
    | SearchQuery[Option]
    | null
    | undefined;
};

/** The search with what was left open decided. */
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

/** What is searched, for what, and how much of it is wanted. */
export interface SearchQuery {
  /** A directory, or a single file: that one is searched whatever the globs and ignore files say. */
  readonly path: NativePath;
  readonly pattern: string;
  /** The pattern is plain text. */
  readonly literal: boolean;
  readonly caseSensitive: boolean;
  /** Globs of the files to search, all when empty. What they mean is in `glob.ts`. */
  readonly include: readonly string[];
  /** Globs of the files and directories to leave out. */
  readonly exclude: readonly string[];
  /** Leave out what ignore files name, and `.git`. */
  readonly respectIgnoreFiles: boolean;
  /** Search files and directories whose names begin with a dot. */
  readonly includeHidden: boolean;
  readonly maxResults: number;
  /** How long the answer may take, the wait for other searches included. */
  readonly timeoutMs: number;
}

/** A line that matches. */
export interface SearchMatch {
  readonly path: NativePath;
  /** From 1. */
  readonly line: number;
  /** Byte of the line where the first match begins, from 1. */
  readonly column: number;
  /** The line without its end; long ones are cut around the match. */
  readonly text: string;
}

/** The limit that kept a search from being complete. */
export type Truncation = 'results' | 'time' | 'size';

export type EngineName = 'ripgrep' | 'builtin';

export interface SearchResult {
  /** By path in byte order, then by line. */
  readonly matches: readonly SearchMatch[];
  readonly truncated: Truncation | null;
  readonly engine: EngineName;
}
