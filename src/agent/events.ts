/** What all events of one command have in common. */
interface CommandFacts {
  /** The call of `exec_command` that started the program. */
  readonly callId: string;
  /** The session id as text. */
  readonly processId: string;
  readonly turnId: string | null;
  readonly command: readonly string[];
  /** A `file:` URI of the executor. */
  readonly cwd: string;
  /** What the command does, as far as anybody has looked: not at all. */
  readonly parsed: readonly { readonly type: 'unknown'; readonly cmd: string }[];
  readonly source: 'unified_exec_startup';
}

/** A program was started. */
export interface BeginEvent extends CommandFacts {
  readonly type: 'begin';
  readonly startedAtMs: number;
}

/** A program has written something. It ends between characters; output of all kinds is called stdout. */
export interface OutputDeltaEvent {
  readonly type: 'outputDelta';
  readonly callId: string;
  readonly stream: 'stdout';
  /** Base64. */
  readonly chunk: string;
}

/** Somebody has typed into a program, or looked at it while it runs. */
export interface TerminalInteractionEvent {
  readonly type: 'terminalInteraction';
  /** The call of `exec_command` that started the program. */
  readonly callId: string;
  readonly processId: string;
  readonly stdin: string;
}

/** A program has ended and its output is complete, or nothing more can be known of it. */
export interface EndEvent extends CommandFacts {
  readonly type: 'end';
  readonly completedAtMs: number;
  readonly stdout: string;
  /** Empty unless the program was lost; then why. */
  readonly stderr: string;
  /** Everything in order; its middle may be omitted, and then says so. */
  readonly aggregatedOutput: string;
  /** -1 when it is not known. */
  readonly exitCode: number;
  readonly durationMs: number;
  /** The output as short as the model would get it. */
  readonly formattedOutput: string;
  readonly status: 'completed' | 'failed';
}

/**
 * What happens to the programs of a model. For each program: `begin`, then its output and what is typed in order, then exactly one
 * `end`. Events are plain data.
 */
export type ExecEvent = BeginEvent | OutputDeltaEvent | TerminalInteractionEvent | EndEvent;
