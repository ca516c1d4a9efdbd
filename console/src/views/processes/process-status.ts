import type { ProcessInfo } from '../../../../src/client/browser.ts';

export interface Status {
  readonly kind: 'running' | 'done' | 'failed';
  readonly text: string;
  /** The same with more words. */
  readonly detail: string;
}

const REASONS = {
  oom: 'it used more memory than permitted',
  timeout: 'it ran longer than permitted',
  idle: 'it was idle longer than permitted',
  outputLimit: 'it printed more than permitted',
} as const;

/** For a process that the server does not have any more: how it ended is not known. */
const GONE: Status = {
  kind: 'done',
  text: 'Gone',
  detail: 'The server does not have this process any more.',
};

/** The status of a process with a tab. The tab stays open when the server does not have the process any more. */
export function statusOfTab(info: ProcessInfo, isLost: boolean): Status {
  return isLost && info.state !== 'closed' ? GONE : statusOf(info);
}

/** Whether a process runs, and how it ended. */
export function statusOf({ state, exitCode, signal, reason }: ProcessInfo): Status {
  if (state !== 'closed' && exitCode === null) return { kind: 'running', text: 'Running', detail: 'Running' };
  if (reason !== null) {
    return {
      kind: 'failed',
      text: `Stopped: ${reason}`,
      detail: `The server ended it because ${REASONS[reason]}.`,
    };
  }
  if (exitCode === 0)
    return { kind: 'done', text: 'Exit 0', detail: 'Ended without an error (exit code 0).' };
  if (signal !== null) {
    return { kind: 'failed', text: signal, detail: `Ended by the signal ${signal} (exit code ${exitCode}).` };
  }
  if (exitCode === null) return { kind: 'done', text: 'Ended', detail: 'Ended.' };
  return { kind: 'failed', text: `Exit ${exitCode}`, detail: `Ended with the exit code ${exitCode}.` };
}
