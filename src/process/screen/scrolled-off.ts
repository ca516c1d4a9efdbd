import { effectOf, forEachSequence, hasOtherControls } from './escape-sequences.ts';
import type { TerminalModes } from './terminal-modes.ts';

const [LF, CR] = [0x0a, 0x0d];

/**
 * Finds the part of plain output that determines the screen: the last lines, as many as fill the screen twice. Whatever line the cursor is
 * in before them, it is in the last line after the first half, and the second half fills the screen. They may contain colours and
 * changes within a line, but nothing that moves the cursor to another line. Returns where they begin, in the first column, and adds to
 * `modes` what the output before them has set. Null when the output is not like that; `modes` must not be used then.
 *
 * The bytes must begin outside of a sequence, and the whole screen must scroll.
 */
export function findScrolledOff(bytes: Buffer, rows: number, modes: TerminalModes): number | null {
  const visibleFrom = startOfLastLines(bytes, 2 * rows);
  if (visibleFrom === null || !staysInLine(bytes.subarray(visibleFrom)) || hasOtherControls(bytes))
    return null;
  // A line feed inside of a control string is not the end of a line.
  const { independent, endsInSequence } = modes.take(bytes.subarray(0, visibleFrom));
  return independent && !endsInSequence ? visibleFrom : null;
}

/**
 * Where the first sequence begins that {@link findScrolledOff} does not accept; the length when there is none. The output before it may
 * have scrolled off, such as that of commands before an editor was opened.
 */
export function startOfDrawing(bytes: Buffer): number {
  let drawing = bytes.length;
  forEachSequence(bytes, (start, end) => {
    const effect = effectOf(bytes, start, end);
    if (effect !== 'screen' && effect !== 'complex') return true;
    drawing = start;
    return false;
  });
  return drawing;
}

/** Where the last `count` complete lines begin, behind a carriage return and a line feed. Null when there are not as many. */
function startOfLastLines(bytes: Buffer, count: number): number | null {
  let lines = 0;
  for (let at = bytes.lastIndexOf(LF); at > 0; at = bytes.lastIndexOf(LF, at - 1)) {
    if (lines++ >= count && bytes[at - 1] === CR) return at + 1;
  }
  return null;
}

function staysInLine(bytes: Buffer): boolean {
  let stays = true;
  forEachSequence(bytes, (start, end) => {
    const effect = effectOf(bytes, start, end);
    stays = effect !== 'screen' && effect !== 'complex' && !bytes.subarray(start, end).includes(LF);
    return stays;
  });
  return stays;
}
