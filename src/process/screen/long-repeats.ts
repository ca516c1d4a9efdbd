import type { Terminal } from '@xterm/headless';
import { MAX_HARMLESS_REPEATS } from './limits.ts';

type Size = Pick<Terminal, 'rows' | 'cols'>;

/**
 * Keeps sequences from the library that repeat something more often than a screen has room for. It would do that up to two thousand
 * million times, and allocates memory for all repetitions of a character. `refused` is called for each: the screen misses what it draws.
 */
export function refuseLongRepeats(terminal: Terminal, refused: () => void): void {
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
