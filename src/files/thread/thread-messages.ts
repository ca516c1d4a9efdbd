import type { FileErrorKind } from '../errors.ts';
import type { WalkOptions } from '../file-system.ts';
import type { WalkOutcome, WalkPartLimits, WalkStart } from '../local/walk.ts';
import type { NativePath } from '../native-path.ts';

/** A job that a file thread receives by message, one at a time. Links are followed. Writes use the shared write slot. */
export type ThreadJob = WalkJob | ReadJob;

/** A walk or a part of one. */
export interface WalkJob {
  readonly kind: 'walk';
  readonly start: WalkStart;
  readonly options: WalkOptions;
  readonly limits: WalkPartLimits;
}

/** Opens a regular file and reads its beginning. */
interface ReadJob {
  readonly kind: 'read';
  readonly path: NativePath;
}

/** The result of a job. The receiver owns the descriptors. */
export interface ThreadAnswers {
  readonly walk: WalkOutcome & { readonly text: ArrayBuffer };
  /** `fd` is null when `head` is the whole file. `head` is null when the file could not be read at a position. */
  readonly read: { readonly fd: number | null; readonly size: number; readonly head: string | null };
  /** A file that may block is not written: the result is its open descriptor, or `notOpened` if it could not be opened yet. */
  readonly write: 'written' | 'notOpened' | number;
}

/** Messages of a file thread: `ready` once, then the outcome of each job. */
export type ThreadMessage =
  | { readonly kind: 'ready' }
  | { readonly kind: 'done'; readonly answer: ThreadAnswers[keyof ThreadAnswers] }
  | {
      readonly kind: 'failed';
      readonly errorKind: FileErrorKind;
      readonly message: string;
      readonly errno: number | null;
    };
