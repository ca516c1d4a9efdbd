import { ProcessError } from '../errors.ts';
import type { TerminalSize } from '../terminal-size.ts';
import { isDrawable } from './drawable.ts';
import { MAX_SCREEN_CELLS } from './limits.ts';

/** A screen, and the bytes that draw it on a new terminal of its size. */
export interface DrawnScreen {
  readonly size: TerminalSize;
  readonly redraw: Buffer;
  readonly text: string;
  readonly cursor: { readonly row: number; readonly col: number };
  readonly alternate: boolean;
  readonly title: string;
  /** False when output that determines the screen was dropped. */
  readonly exact: boolean;
  /** Whether a line feed in the last line scrolls the whole screen, and nothing but escape sequences moves the cursor up. */
  readonly scrollsFully: boolean;
}

/** A part of what a terminal receives: output, or a new size. */
export type TerminalInput = Buffer | TerminalSize;

/** A screen that more output follows. */
export interface ScreenStart {
  /** The size of the terminal that the input is for. */
  readonly size: TerminalSize;
  readonly input: readonly TerminalInput[];
  /** Whether the input draws the screen as it was. */
  readonly exact: boolean;
}

/** What to draw: a screen, and more input after it. */
export interface Drawing {
  readonly start: ScreenStart;
  readonly inputs: readonly TerminalInput[];
}

/**
 * Draws what a terminal shows that starts with a screen and receives more input. `prepare` is called when the drawing begins, so that a
 * drawing that waits needs no memory for its input. Rejects with the reason of the signal when that aborts before.
 */
export type DrawScreen = (prepare: () => Drawing, signal?: AbortSignal) => Promise<DrawnScreen>;

/** Throws ProcessError when a terminal of this size cannot be drawn. */
export function requireDrawable(size: TerminalSize): void {
  if (isDrawable(size)) return;
  throw new ProcessError(
    'terminalTooLarge',
    `the terminal has ${size.rows} rows and ${size.cols} columns; a screen has at most ${MAX_SCREEN_CELLS} characters. Resize the terminal`,
  );
}
