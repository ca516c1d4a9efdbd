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

/** How a sandboxed program ended that its sandbox has probably stopped. */
export interface Denial {
  readonly exitCode: number | null;
  readonly output: string;
}

/**
 * What the owner of the agent decides. Whatever is absent is allowed and not sandboxed. While an answer is awaited, no call on
 * another program runs out of time: the user may be reading a question. Throwing ends the call with that error.
 */
export interface ExecPolicy {
  approve?(request: CommandRequest, options: { readonly signal: AbortSignal }): Promise<Approval>;
  /** The sandbox as on the wire; null for none. */
  chooseSandbox?(request: CommandRequest): unknown;
  /** Whether a command whose sandbox stopped it at once is run again, once and without one. */
  onDenied?(
    request: CommandRequest,
    denial: Denial,
    options: { readonly signal: AbortSignal },
  ): Promise<boolean>;
}
