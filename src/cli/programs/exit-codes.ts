import type { ProcessInfo } from '../../client/sharing.ts';
import { PROGRAM_EXIT_CODES } from '../failures.ts';

/** How a program ended, as far as exit codes depend on it. */
export interface ProgramEnd {
  /** 128 + n when signal n ended it. */
  readonly exitCode: number;
  /** The limit that ended it. Absent or null when none did. */
  readonly reason?: string | null | undefined;
}

/** The exit code of a command that waited for a program: its own, or 124 when a limit ended it. */
export function exitCodeOf({ exitCode, reason }: ProgramEnd): number {
  return reason == null ? exitCode : PROGRAM_EXIT_CODES.timedOut.code;
}

/** The limit that ended a program, in words. */
export function limitText(reason: LimitReason): string {
  return LIMITS[reason];
}

type LimitReason = NonNullable<ProcessInfo['reason']>;

const LIMITS: Readonly<Record<LimitReason, string>> = {
  timeout: 'timed out',
  idle: 'idle for too long',
  oom: 'out of memory',
  outputLimit: 'too much output',
};
