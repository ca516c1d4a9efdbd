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
  return reason == null ? statusOf(exitCode) : PROGRAM_EXIT_CODES.timedOut.code;
}

/** This system keeps the last eight bits. Those of Windows have more, and a failure must not look like a success. */
function statusOf(exitCode: number): number {
  return exitCode === 0 ? 0 : exitCode & 0xff || 255;
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
