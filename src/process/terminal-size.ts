/** The size of a terminal in characters. */
export interface TerminalSize {
  readonly rows: number;
  readonly cols: number;
}

/** Terminal size when the caller sends none. */
export const DEFAULT_TERMINAL_SIZE: TerminalSize = { rows: 24, cols: 80 };
