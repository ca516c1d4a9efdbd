import type { FileErrorKind } from '../errors.ts';
import type { WalkOptions } from '../file-system.ts';
import type { WalkOutcome, WalkReach, WalkStart } from '../local/walk.ts';
import type { NativePath } from '../native-path.ts';

/** What a file thread is asked for by a message, one thing at a time; links are followed. Writes come another way. */
export type ThreadJob = WalkJob | ReadJob;

/** A walk or a piece of one. */
export interface WalkJob {
  readonly kind: 'walk';
  readonly start: WalkStart;
  readonly options: WalkOptions;
  readonly reach: WalkReach;
}

/** Opens a regular file and reads its beginning. */
export interface ReadJob {
  readonly kind: 'read';
  readonly path: NativePath;
}

/** What it says at the end of a job that was done. Descriptors belong to whoever hears of them. */
export interface ThreadAnswers {
  readonly walk: WalkOutcome & { readonly text: ArrayBuffer };
  /** `fd` is null when the beginning is all there is; `head` is null when it could not be read by position. */
  readonly read: { readonly fd: number | null; readonly size: number; readonly head: string | null };
  /** Something that may have to be waited for is not written: it is open by the descriptor that is given, or could not be opened yet. */
  readonly write: 'written' | 'notOpened' | number;
}

/** What it tells: once that it is ready, with the system's number of it, if that is known, and the end of each job. */
export type ThreadMessage =
  | { readonly kind: 'ready'; readonly systemThread: number | null }
  | { readonly kind: 'done'; readonly answer: ThreadAnswers[keyof ThreadAnswers] }
  | {
      readonly kind: 'failed';
      readonly errorKind: FileErrorKind;
      readonly message: string;
      readonly errno: number | null;
    };
