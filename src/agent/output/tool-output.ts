import type { NetworkDenial } from '../session/network-decisions.ts';
import type { StructuredOutput } from './model-text.ts';

/** The result of a call. */
export interface ToolOutput {
  /** The text for the model. */
  readonly text: string;
  /** The same for models that accept structured results. */
  readonly structured: StructuredOutput;
  /** Null while the program runs, and when it was lost. */
  readonly exitCode: number | null;
  /**
   * The session id for `write_stdin`; null when no output can follow. With an exit code, the program has exited but a child process
   * keeps its output open.
   */
  readonly sessionId: number | null;
  /** With a session id: the reference by which another agent continues with the session. Null where the executor has none. */
  readonly ref: string | null;
  /** Whether the program probably failed because of its sandbox. */
  readonly sandboxDenied: boolean;
  /** Hosts that the program was not allowed to reach since the previous call, at most eight. */
  readonly networkDenials: readonly NetworkDenial[];
}
