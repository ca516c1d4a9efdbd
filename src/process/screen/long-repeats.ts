import type { Terminal } from '@xterm/headless';
import { MAX_HARMLESS_REPEATS } from './limits.ts';

type Size = Pick<Terminal, 'rows' | 'cols'>;

/**
 * Ignores sequences that repeat something more often than a screen has rows or columns for. The library would repeat it up to two
 * thousand million times, and allocate memory for every repetition of a character. Calls `refused` for each, because the screen then
 * lacks what the sequence draws.
 */
export function refuseLongRepeats(terminal: Size & Pick<Terminal, 'parser'>, refused: () => void): void {
  const limits: Readonly<Record<string, (size: Size) => number>> = {
    S: ({ rows }) => rows,
    T: ({ rows }) => rows,
    L: ({ rows }) => rows,
    M: ({ rows }) => rows,
    I: ({ cols }) => cols,
    Z: ({ cols }) => cols,
    b: ({ rows, cols }) => rows * cols,
  };
  for (const [final, limit] of Object.entries(limits)) {
    terminal.parser.registerCsiHandler({ final }, ([count = 0]) => {
      if (Number(count) <= Math.max(MAX_HARMLESS_REPEATS, limit(terminal))) return false;
      refused();
      return true;
    });
  }
}
