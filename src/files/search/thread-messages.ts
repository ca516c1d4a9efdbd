import type { FileErrorKind } from '../errors.ts';
import type { SearchMatch, SearchQuery } from './query.ts';

/** The workerData of the builtin engine's thread. */
export interface ThreadJob {
  readonly query: SearchQuery;
  readonly isDirectory: boolean;
  readonly pattern: RegExp;
}

/** Messages of the thread: any number of `found` and `skipped`, then `finished` or `failed`. */
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
