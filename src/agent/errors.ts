import type { ToolOutput } from './output/tool-output.ts';

/** The kind of a failed call. */
export type ExecErrorKind =
  /** The arguments are invalid. */
  | 'invalidArguments'
  /** The policy declined the command. */
  | 'declined'
  /** The policy returned an invalid choice. */
  | 'invalidPolicy'
  /** The session does not exist, or no longer. */
  | 'unknownSession'
  /** The program reads no input. */
  | 'stdinClosed'
  /** The program could not be started. */
  | 'launchFailed'
  /** Writing the input or sending the signal failed. */
  | 'writeFailed'
  /** The program can no longer be followed. */
  | 'processFailed'
  /** The caller's signal aborted the call. A started program keeps running. */
  | 'aborted'
  /** There are too many sessions, or too many calls waiting for this one. */
  | 'overloaded'
  /** The agent is closed. */
  | 'closed';

/** Details of a failed call. */
export interface ExecErrorDetails {
  readonly cause?: unknown;
  /** The session of the call, if it can still be used. */
  readonly sessionId?: number | undefined;
  /** The result before the failure. */
  readonly output?: ToolOutput | undefined;
}

/** An error of the tools. */
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

  /** The text for the model: the failure, its reason and the output so far. */
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
