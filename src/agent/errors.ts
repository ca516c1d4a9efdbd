import type { ToolOutput } from './output/tool-output.ts';

/** What went wrong with a call, for programs. */
export type ExecErrorKind =
  /** The arguments are not what the tool takes. */
  | 'invalidArguments'
  /** The policy does not let the command run. */
  | 'declined'
  /** There is no such session, or no longer. */
  | 'unknownSession'
  /** The program takes no input. */
  | 'stdinClosed'
  /** The program could not be started. */
  | 'launchFailed'
  /** The input could not be written or the program not be signalled. */
  | 'writeFailed'
  /** What becomes of the program can no longer be known. */
  | 'processFailed'
  /** The caller's signal aborted the call; a program that was started runs on. */
  | 'aborted'
  /** There are too many sessions, or too many calls wait for this one. */
  | 'overloaded'
  /** The layer was closed by its owner. */
  | 'closed';

/** What is known besides. */
export interface ExecErrorDetails {
  readonly cause?: unknown;
  /** The session that the call was about and that can still be used. */
  readonly sessionId?: number | undefined;
  /** What the call had collected before it failed. */
  readonly output?: ToolOutput | undefined;
}

/** Every error of the tools. */
export class ExecToolError extends Error {
  override readonly name = 'ExecToolError';
  readonly kind: ExecErrorKind;
  readonly tool: ToolName;
  readonly sessionId: number | null;
  readonly output: ToolOutput | null;

  constructor(tool: ToolName, kind: ExecErrorKind, message: string, details: ExecErrorDetails = {}) {
    super(message, { cause: details.cause });
    this.tool = tool;
    this.kind = kind;
    this.sessionId = details.sessionId ?? null;
    this.output = details.output ?? null;
  }

  /** What the model gets: what failed and why, and the output that there was. */
  get text(): string {
    const failure = `${this.tool} failed: ${this.message}`;
    return this.output === null ? failure : `${failure}\n${this.output.text}`;
  }
}

/** The tools of a model. */
export type ToolName = 'exec_command' | 'write_stdin';

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
