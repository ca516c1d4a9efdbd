import type { EnvPolicy } from '../environment/index.ts';
import type { Clock } from './clock.ts';
import type { ExecEvent } from './events.ts';
import type { ExecPolicy } from './launch/policy.ts';
import type { ExecTarget } from './launch/request.ts';
import type { TruncationPolicy } from './output/truncate.ts';

/** Options of the tools. */
export interface AgentExecOptions {
  /** Where commands can run; the first is the default. */
  readonly targets: readonly ExecTarget[];
  /** Receives all events in order. Its exceptions are ignored. */
  readonly onEvent?: (event: ExecEvent) => void;
  readonly policy?: ExecPolicy;
  /** Which variables of the executor's environment programs inherit. */
  readonly envPolicy?: EnvPolicy;
  /** Variables that override the inherited ones. The variables that every program gets override these. */
  readonly env?: Readonly<Record<string, string>>;
  /** Whether shells may read the user's profile, which is then their default. Default: true. */
  readonly allowLogin?: boolean;
  /** How much output the model accepts. */
  readonly truncation?: TruncationPolicy;
  /**
   * Lets programs outlive this agent, for `reopen`. They still end with `close`, and as evicted sessions. Executors
   * that cannot share processes refuse it. Default: false.
   */
  readonly detached?: boolean;
  /** Longest poll without input. */
  readonly maxPollMs?: number;
  readonly clock?: Clock;
  /** Returns random numbers in [0, 1) for ids. */
  readonly random?: () => number;
}

/** The context of an `exec_command` call. */
export interface ExecContext {
  /** The id of the call in all events of the program. */
  readonly callId: string;
  readonly turnId?: string;
  /** Any string. Programs see it as CODEX_THREAD_ID; they see CODEX_TOOL_CALL_ID too unless it is not a UUID. */
  readonly threadId?: string;
  readonly agentSessionId?: string;
  /** The targets of this call, instead of the configured ones. */
  readonly targets?: readonly ExecTarget[];
  /** Aborts the call. A started program keeps running, and the next call returns its output. */
  readonly signal?: AbortSignal;
}

/** The context of `reopen`. */
export interface ReopenContext extends Pick<ExecContext, 'callId' | 'turnId' | 'targets' | 'signal'> {
  /** The target that runs the program. Default: the first. */
  readonly environmentId?: string;
}

/** The context of a `write_stdin` call. */
export type WriteContext = Pick<ExecContext, 'signal'>;

/** A running program. */
export interface RunningProgram {
  readonly itemId: string;
  readonly processId: string;
  /** For `reopen`. */
  readonly ref: string | null;
  readonly command: readonly string[];
  readonly cwd: string;
}
