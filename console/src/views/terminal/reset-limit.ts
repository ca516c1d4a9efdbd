import type { Terminal } from '@xterm/xterm';

/** Resets of a terminal in one turn. No program needs more. */
const MAX_RESETS = 50;

/** Ignores further resets in the same turn. The library takes a tenth of a millisecond for each, and a piece of output can have 30,000. */
export function limitResets(terminal: Pick<Terminal, 'parser'>): void {
  let resets = 0;
  terminal.parser.registerEscHandler({ final: 'c' }, () => {
    if (resets === 0) {
      setTimeout(() => {
        resets = 0;
      });
    }
    resets++;
    return resets > MAX_RESETS;
  });
}
