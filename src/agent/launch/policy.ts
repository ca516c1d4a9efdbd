import type { SandboxPermissions } from '../arguments.ts';

/** A command that a model wants to run, resolved for its environment. */
export interface CommandRequest {
  readonly callId: string;
  readonly environmentId: string;
  /** As the model wrote it. */
  readonly cmd: string;
  /** The shell and its arguments. */
  readonly command: readonly string[];
  /** A `file:` URI of the executor. */
  readonly cwd: string;
  readonly tty: boolean;
  readonly sandboxPermissions: SandboxPermissions;
  readonly additionalPermissions: Readonly<Record<string, unknown>> | null;
  readonly justification: string | null;
  readonly prefixRule: readonly string[] | null;
}

export type Approval = { readonly approved: true } | { readonly approved: false; readonly reason: string };

/** The end of a program that its sandbox probably stopped. */
export interface Denial {
  readonly exitCode: number | null;
  readonly output: string;
}

/**
 * Decisions of the agent's owner. Without a function commands are approved and not sandboxed. Time limits of all calls pause during a
 * decision, because the user may be reading a question. An exception rejects the call with that error.
 */
export interface ExecPolicy {
  approve?(request: CommandRequest, options: { readonly signal: AbortSignal }): Promise<Approval>;
  /** The sandbox as on the wire; null for none. */
  chooseSandbox?(request: CommandRequest): unknown;
  /** Whether to run a command again without a sandbox, once, after its sandbox stopped it immediately. */
  onDenied?(
    request: CommandRequest,
    denial: Denial,
    options: { readonly signal: AbortSignal },
  ): Promise<boolean>;
}
