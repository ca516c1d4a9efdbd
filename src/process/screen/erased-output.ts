import type { TerminalInput } from './drawn-screen.ts';
import { effectOf, forEachSequence, hasOtherControls } from './escape-sequences.ts';
import { TerminalModes } from './terminal-modes.ts';

/**
 * Leaves out what was drawn before the whole screen was erased for the last time, except for the modes that it set. Full-screen programs
 * erase the screen now and then. Looking for that is many times faster than drawing everything before it. The input must begin outside of
 * a sequence.
 */
export function withoutErased(inputs: readonly TerminalInput[]): readonly TerminalInput[] {
  const outputs = inputs.filter((input) => Buffer.isBuffer(input));
  if (outputs.length < inputs.length) return inputs;
  const bytes = Buffer.concat(outputs);
  const erasure = Math.max(...ERASURES.map((sequences) => bytes.lastIndexOf(sequences)));
  if (erasure <= 0) return inputs;
  const before = bytes.subarray(0, erasure);
  // Sequences with other effects are kept, with everything before them.
  let keptEnd = 0;
  const end = forEachSequence(before, (start, end) => {
    if (effectOf(before, start, end) === 'complex') keptEnd = end;
    return true;
  });
  const erased = before.subarray(keptEnd);
  if (end < erasure || hasOtherControls(erased) || erased.includes(LINK)) return inputs;
  const modes = new TerminalModes();
  modes.take(erased);
  return [before.subarray(0, keptEnd), modes.toBytes(), bytes.subarray(erasure)];
}

/** What programs erase the screen with, together with what they move the cursor home with. */
const ERASURES = ['\x1b[H\x1b[2J', '\x1b[1;1H\x1b[2J', '\x1b[2J\x1b[H', '\x1b[2J\x1b[1;1H'];

/** The text that follows belongs to a link, until the next such sequence. */
const LINK = '\x1b]8;';
