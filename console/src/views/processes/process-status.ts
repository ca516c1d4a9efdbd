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
