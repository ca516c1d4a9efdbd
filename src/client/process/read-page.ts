import { onAbort } from '../../base/abort.ts';
import type { ExecProcess, ReadOptions, ReadPage } from '../backend.ts';
import { CALL_OPTIONS, type OptionNames } from '../connection/option-checks.ts';
import type { ClientError } from '../errors.ts';
import { MAX_TIMER_MS } from '../limits.ts';

/** Resolves when an event after `afterSeq` is known, the process has ended, the time is up, or the signal aborts. */
export function eventAfter(
  process: Pick<ExecProcess, 'revision' | 'state' | 'onChange'>,
  afterSeq: number,
  waitMs: number,
  signal: AbortSignal | undefined,
): Promise<void> {
  return new Promise((resolve) => {
    const check = () => {
      const { closed, failure } = process.state;
      if (process.revision > afterSeq || closed || failure !== null) finish();
    };
    const finish = () => {
      stop();
      unsubscribe?.();
      clearTimeout(timer);
      resolve();
    };
    const stop = process.onChange(check);
    const unsubscribe = signal && onAbort(signal, finish);
    const timer = setTimeout(finish, Math.min(waitMs, MAX_TIMER_MS));
    check();
  });
}

/** The page of a process that can no longer be followed. */
export function failedPage(revision: number, { message }: ClientError): ReadPage {
  return {
    chunks: [],
    nextSeq: revision + 1,
    exited: true,
    exitCode: null,
    closed: true,
    failure: message,
    sandboxDenied: false,
  };
}

/** The names of the options of `process.read`. */
export const READ_OPTIONS: OptionNames<ReadOptions> = {
  ...CALL_OPTIONS,
  afterSeq: true,
  maxBytes: true,
  waitMs: true,
};
