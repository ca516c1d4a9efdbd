import type { FileErrorKind } from '../errors.ts';
import type { NativePath } from '../native-path.ts';
import type { SearchMatch, SearchQuery } from './query.ts';

/** The workerData of the builtin engine's thread. */
export interface ThreadJob {
  readonly query: SearchQuery;
  readonly isDirectory: boolean;
}

/** Messages of the thread: any number of `found`, `tooLarge` and `unreadable`, then `finished` or `failed`. */
export type ThreadMessage =
  | { readonly kind: 'found'; readonly matches: readonly SearchMatch[] }
  /** A file, or lines of it, were not searched because of their size. */
  | { readonly kind: 'tooLarge'; readonly path: NativePath }
  /** A file or directory could not be read. */
  | { readonly kind: 'unreadable' }
  | { readonly kind: 'finished' }
  | {
      readonly kind: 'failed';
      readonly errorKind: FileErrorKind;
      readonly message: string;
      readonly errno: number | null;
    };
