/** The members of all events of one command. */
interface CommandFacts {
  /** The call of `exec_command` that started the program. */
  readonly callId: string;
  /** The session id as text. */
  readonly processId: string;
  readonly turnId: string | null;
  readonly command: readonly string[];
  /** A `file:` URI of the executor. */
  readonly cwd: string;
  /** The parsed command. It is always empty, because nothing parses commands. */
  readonly parsed: readonly { readonly type: 'unknown'; readonly cmd: string }[];
  readonly source: 'unified_exec_startup';
}

/** A program was started. */
export interface BeginEvent extends CommandFacts {
  readonly type: 'begin';
  readonly startedAtMs: number;
}

/** A piece of output. It never splits a character. The stream is always called stdout. */
export interface OutputDeltaEvent {
  readonly type: 'outputDelta';
  readonly callId: string;
  readonly stream: 'stdout';
  /** Base64. */
  readonly chunk: string;
}

/** Input was written to a program, or it was polled while running. */
export interface TerminalInteractionEvent {
  readonly type: 'terminalInteraction';
  /** The call of `exec_command` that started the program. */
  readonly callId: string;
  readonly processId: string;
  readonly stdin: string;
}

/** The proxy of a program's managed network decided about a host. */
export interface NetworkDecisionEvent {
  readonly type: 'networkDecision';
  /** The call of `exec_command` that started the program. */
  readonly callId: string;
  readonly processId: string;
  /** `ask` blocks like `deny`. */
  readonly decision: 'allow' | 'deny' | 'ask';
  readonly protocol: 'http' | 'https_connect' | 'socks5_tcp' | 'socks5_udp';
  readonly host: string;
  readonly port: number;
  /** The reason of the policy, or a code of the proxy. */
  readonly reason: string;
}

/** A program has ended and its output is complete, or it was lost. */
export interface EndEvent extends CommandFacts {
  readonly type: 'end';
  readonly completedAtMs: number;
  readonly stdout: string;
  /** The reason when the program was lost; otherwise empty. */
  readonly stderr: string;
  /** All output in order. A mark replaces an omitted middle. */
  readonly aggregatedOutput: string;
  /** -1 when unknown. */
  readonly exitCode: number;
  readonly durationMs: number;
  /** The output, truncated as for the model. */
  readonly formattedOutput: string;
  readonly status: 'completed' | 'failed';
}

/**
 * Events of a model's programs. Each program has one `begin`, then its output and input in order, then exactly one `end`. Decisions
 * about its network come in their own order between them. Events are plain data.
 */
export type ExecEvent =
  | BeginEvent
  | OutputDeltaEvent
  | TerminalInteractionEvent
  | NetworkDecisionEvent
  | EndEvent;
