import { LISTED_ARGUMENT_CHARACTERS } from './limits.ts';
import type { ManagedProcess } from './managed-process.ts';
import type { LimitReason } from './resources/resource-limits.ts';
import type { SpawnSpec } from './spawn/spawner.ts';
import type { TerminalSize } from './terminal-size.ts';

type ProcessState = 'starting' | 'running' | 'exited' | 'closed';

/** The program of a process, as a listing shows it. */
interface ListedProgram {
  /** The first of them; the last one may be cut. */
  readonly argv: readonly string[];
  /** Whether arguments, or a part of the last one, are missing. */
  readonly argvTruncated: boolean;
  readonly cwd: string;
  readonly tty: boolean;
}

/** One entry of a process listing. */
export interface ProcessSummary {
  readonly processId: string;
  readonly program: ListedProgram;
  readonly state: ProcessState;
  readonly exitCode: number | null;
  readonly reason: LimitReason | null;
  readonly startedAtMs: number;
  readonly nextSeq: number;
  /** Bytes of all output streams. */
  readonly outputBytes: number;
  /** The size of its terminal; null without one. */
  readonly size: TerminalSize | null;
}

/** What a manager knows about a process. */
interface KnownProcess extends Pick<ProcessSummary, 'processId' | 'program' | 'startedAtMs'> {
  /** Null while it is being started. */
  readonly process: ManagedProcess | null;
}

/** Describes a process for a listing. */
export function summarize({ processId, program, startedAtMs, process }: KnownProcess): ProcessSummary {
  const state: ProcessState =
    process === null
      ? 'starting'
      : process.closed
        ? 'closed'
        : process.exitCode === null
          ? 'running'
          : 'exited';
  return {
    processId,
    program,
    state,
    exitCode: process?.exitCode ?? null,
    reason: process?.reason ?? null,
    startedAtMs,
    nextSeq: process?.nextSeq ?? 1,
    outputBytes: process?.outputBytes ?? 0,
    size: process?.size ?? null,
  };
}

/** The program of a start, for a listing. */
export function listed({ argv, cwd, io }: SpawnSpec): ListedProgram {
  const shown: string[] = [];
  let left = LISTED_ARGUMENT_CHARACTERS;
  for (const argument of argv) {
    // An empty argument takes space too.
    if (left <= 0) break;
    shown.push(argument.length <= left ? argument : beginningOf(argument, left));
    left -= argument.length + 1;
  }
  // The last argument may use up all characters without being cut.
  const argvTruncated = shown.length < argv.length || left < -1;
  return { argv: shown, argvTruncated, cwd, tty: io.kind === 'pty' };
}

/**
 * The first characters, as a copy: a slice would keep the whole text in memory. Without half of a surrogate pair at the end, which strict
 * JSON parsers refuse.
 */
function beginningOf(text: string, length: number): string {
  const copy = Buffer.from(text.slice(0, length), 'utf16le').toString('utf16le');
  return copy.replace(/[\ud800-\udbff]$/, '');
}

/** Memory of what identifies a process in a listing. */
export function identityBytes({
  processId,
  program: { argv, cwd },
}: Pick<ProcessSummary, 'processId' | 'program'>): number {
  return [processId, cwd, ...argv].reduce((bytes, text) => bytes + Buffer.byteLength(text) + STRING_BYTES, 0);
}

/** What a string and the reference to it take besides the characters. */
const STRING_BYTES = 32;
