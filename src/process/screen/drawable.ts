import type { TerminalSize } from '../terminal-size.ts';
import { MAX_SCREEN_CELLS } from './limits.ts';

/** Whether a terminal of this size can be drawn. */
export function isDrawable({ rows, cols }: TerminalSize): boolean {
  return rows * cols <= MAX_SCREEN_CELLS;
}
