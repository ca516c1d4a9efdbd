import type { FileErrorKind } from '../errors.ts';
import type { SearchMatch, SearchQuery } from './query.ts';

/** What the thread of the builtin engine is started with. */
export interface ThreadJob {
  readonly query: SearchQuery;
  readonly isDirectory: boolean;
  readonly pattern: RegExp;
}

/** What it tells: any number of findings, then one of the last two. */
export type ThreadMessage =
  | { readonly kind: 'found'; readonly matches: readonly SearchMatch[] }
  | { readonly kind: 'skipped' }
  | { readonly kind: 'finished' }
  | {
      readonly kind: 'failed';
      readonly errorKind: FileErrorKind;
      readonly message: string;
      readonly errno: number | null;
    };
