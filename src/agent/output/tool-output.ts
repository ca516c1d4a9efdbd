import type { StructuredOutput } from './model-text.ts';

/** What a call gives. */
export interface ToolOutput {
  /** For the model, ready to be sent. */
  readonly text: string;
  /** The same for models that take structured answers. */
  readonly structured: StructuredOutput;
  /** Null while the program runs, and when its end is not known. */
  readonly exitCode: number | null;
  /**
   * How the program is called in `write_stdin`; null when there is nothing more to come. With an exit code besides, the program
   * has ended but something that it started holds its output open.
   */
  readonly sessionId: number | null;
  /** Whether the program has probably failed because of its sandbox. */
  readonly sandboxDenied: boolean;
}
