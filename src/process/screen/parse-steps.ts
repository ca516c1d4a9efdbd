import type { Terminal } from '@xterm/headless';
import { MAX_HARMLESS_REPEATS, PARSE_STEP_BYTES, PARSE_STEP_CELLS } from './limits.ts';

type Size = Pick<Terminal, 'rows' | 'cols'>;

/**
 * Where the part of the output ends that a terminal parses in one step. A sequence of two bytes can change the whole screen, so a step has
 * few sequences, and fewer on a large screen.
 */
export function endOfStep(bytes: Buffer, from: number, { rows, cols }: Size): number {
  const limit = Math.min(bytes.length, from + PARSE_STEP_BYTES);
  let sequences = Math.max(1, Math.floor(PARSE_STEP_CELLS / (rows * cols)));
  for (let at = from; at < limit; at++) {
    if (STARTS_SEQUENCE.has(bytes[at]!) && sequences-- === 0) return at;
  }
  return limit;
}

/** Escape, and the first byte of the control characters that stand for a sequence in UTF-8. */
const STARTS_SEQUENCE: ReadonlySet<number> = new Set([0x1b, 0xc2]);

/**
 * Keeps sequences from the library that repeat something more often than a screen has room for. It would do that in one go, up to two
 * thousand million times. `refused` is called for each: the screen misses what it draws.
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
