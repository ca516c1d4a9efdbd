import { SEARCH_INCOMPLETE_FILES, SEARCH_RESPONSE_BYTES } from '../limits.ts';
import type { NativePath } from '../native-path.ts';
import { uriFromPath } from '../path-uri.ts';
import type { SearchMatch, Truncation } from './query.ts';

/** Collects matches from any engine until the response reaches a limit. */
export class Collector {
  readonly #maxResults: number;
  readonly #matches: SearchMatch[] = [];
  #bytes = 0;
  #full: Truncation | null = null;
  #incomplete: Truncation | null = null;
  readonly #incompleteFiles: NativePath[] = [];
  #unreadable = 0;

  constructor(maxResults: number) {
    this.#maxResults = maxResults;
  }

  /** The limit that truncated the result. */
  get truncated(): Truncation | null {
    return this.#full ?? this.#incomplete;
  }

  /** The response is full, so the search can end. */
  get isFull(): boolean {
    return this.#full !== null;
  }

  /** Adds a match. Returns false when the response is full. */
  add(match: SearchMatch): boolean {
    if (this.#full !== null) return false;
    this.#bytes += Buffer.byteLength(JSON.stringify(match.text)) + uriFromPath(match.path).length;
    if (this.#matches.length >= this.#maxResults) this.#full = 'results';
    else if (this.#bytes > SEARCH_RESPONSE_BYTES) this.#full = 'size';
    else this.#matches.push(match);
    return this.#full === null;
  }

  /** Records that the time was up. */
  timeOut(): void {
    this.#incomplete = 'time';
  }

  /** Records that a file, or lines of it, were not searched because of their size. The search continues. */
  addIncomplete(path: NativePath): void {
    this.#incomplete = 'size';
    if (this.#incompleteFiles.length < SEARCH_INCOMPLETE_FILES) this.#incompleteFiles.push(path);
  }

  /** The first files that were not searched completely because of their size, in byte order. */
  get incompleteFiles(): readonly NativePath[] {
    return this.#incompleteFiles.toSorted(compare);
  }

  /** Records that a file or directory could not be read. */
  countUnreadable(): void {
    this.#unreadable++;
  }

  /** The number of files and directories that could not be read. */
  get unreadable(): number {
    return this.#unreadable;
  }

  /** The matches so far, by path in byte order, then by line. */
  sorted(): SearchMatch[] {
    return this.#matches.toSorted((a, b) => compare(a.path, b.path) || a.line - b.line);
  }
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
