import { expect } from 'vitest';

/** The output of a tool, as the model reads it. */
export interface ToolOutput {
  /** Everything. */
  readonly text: string;
  /** What follows `Output:`; the whole text when there is no such line. */
  readonly output: string;
  /** Null while the command runs. */
  readonly exitCode: number | null;
  /** How the model refers to a command that still runs; null when it has ended. */
  readonly sessionId: number | null;
  /** The size of the whole output in tokens of four bytes, before codex shortened it. */
  readonly originalTokens: number | null;
}

/** Matches the output of a command that still runs. */
export const RUNNING = { exitCode: null, sessionId: expect.any(Number) };

/** Reads the output of `exec_command` or `write_stdin`. */
export function parseToolOutput(raw: unknown): ToolOutput {
  const text = typeof raw === 'string' ? raw : JSON.stringify(raw);
  const [header = '', ...rest] = text.split(/^Output:\n/m);
  return {
    text,
    output: rest.length === 0 ? text : rest.join('Output:\n'),
    exitCode: number(header, /^Process exited with code (-?\d+)$/m),
    sessionId: number(header, /^Process running with session ID (\d+)$/m),
    originalTokens: number(header, /^Original token count: (\d+)$/m),
  };
}

function number(text: string, pattern: RegExp): number | null {
  const match = pattern.exec(text);
  return match === null ? null : Number(match[1]);
}
