import type { FileErrorKind } from '../errors.ts';
import type { SearchMatch, SearchQuery } from './query.ts';

/** The workerData of the builtin engine's thread. */
export interface ThreadJob {
  readonly query: SearchQuery;
  readonly isDirectory: boolean;
}

/** Messages of the thread: any number of `found`, `tooLarge` and `unreadable`, then `finished` or `failed`. */
export type ThreadMessage =
  | { readonly kind: 'found'; readonly matches: readonly SearchMatch[] }
  /** A file or a line was not searched because of its size. */
  | { readonly kind: 'tooLarge' }
  /** A file or directory could not be read. */
  | { readonly kind: 'unreadable' }
  | { readonly kind: 'finished' }
  | {
      readonly kind: 'failed';
      readonly errorKind: FileErrorKind;
      readonly message: string;
      readonly errno: number | null;
    };
