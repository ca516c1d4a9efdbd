import type { FileErrorKind } from '../errors.ts';
import type { WalkOptions, WalkResult } from '../file-system.ts';
import type { NativePath } from '../native-path.ts';

/** What a file thread is asked for, one thing at a time; links are followed. */
export type ThreadJob = WalkJob | ReadJob | WriteJob;

export interface WalkJob {
  readonly kind: 'walk';
  readonly path: NativePath;
  readonly options: WalkOptions;
}

/** Opens a regular file and reads its beginning. */
export interface ReadJob {
  readonly kind: 'read';
  readonly path: NativePath;
}

/** Makes `bytes` the content of a file. */
export interface WriteJob {
  readonly kind: 'write';
  readonly path: NativePath;
  readonly bytes: string;
}

/** What it says at the end of a job that was done. Descriptors belong to whoever hears of them. */
export interface ThreadAnswers {
  readonly walk: { readonly text: ArrayBuffer; readonly outcome: Omit<WalkResult, 'entries'> };
  /** `fd` is null when the beginning is all there is; `head` is null when it could not be read by position. */
  readonly read: { readonly fd: number | null; readonly size: number; readonly head: string | null };
  /** Something that may have to be waited for is not written: it is open by the descriptor that is given, or could not be opened yet. */
  readonly write: 'written' | 'notOpened' | number;
}

/** What it tells: once that it is ready, and the end of each job. */
export type ThreadMessage =
  | { readonly kind: 'ready' }
  | { readonly kind: 'done'; readonly answer: ThreadAnswers[ThreadJob['kind']] }
  | {
      readonly kind: 'failed';
      readonly errorKind: FileErrorKind;
      readonly message: string;
      readonly errno: number | null;
    };
