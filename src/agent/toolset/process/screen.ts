import type { ExecProcess, ProcessInfo } from '../../../environment/index.ts';
import { decode } from '../../output/model-text.ts';
import { type Call, requestOptions } from '../call.ts';
import { MAX_POSITIONS } from '../limits.ts';
import { shownText } from '../text/visible.ts';
import type { Collected } from './collect.ts';

/** The screen of a terminal, for a model. */
export interface ShownScreen {
  readonly text: string;
  /** Where the cursor is, from 1. */
  readonly cursor: { readonly row: number; readonly column: number };
  /** Whether the program draws the whole screen, as editors do, so that its output says nothing more. */
  readonly isFullScreen: boolean;
}

/** The screen of a program that draws on its terminal. Null for one that prints lines, and where the server draws no screens. */
export async function shownScreen(
  call: Call,
  process: ExecProcess,
  { tty }: Pick<ProcessInfo, 'tty'>,
  { exitCode, isUnreachable, output: { head, tail } }: Collected,
): Promise<ShownScreen | null> {
  if (!tty || exitCode !== null || isUnreachable || call.signal.aborted) return null;
  const drawing = drawingOf(call);
  const moves =
    drawing.has(process.ref) || ADDRESSES_CURSOR.test(decode(head)) || ADDRESSES_CURSOR.test(decode(tail));
  if (moves) drawing.add(process.ref);
  if (drawing.size > MAX_POSITIONS) drawing.delete(drawing.values().next().value!);
  // Without output a program may still show what it drew before.
  if (!moves && head.length > 0) return null;
  const screen = await process.screen(requestOptions(call)).catch(() => null);
  if (screen === null || (!moves && !screen.alternate)) return null;
  const { row, col } = screen.cursor;
  return {
    text: shownText(screen.text.replace(/[ \t]+$/gm, '').trimEnd()),
    cursor: { row: row + 1, column: col + 1 },
    isFullScreen: screen.alternate,
  };
}

/** The processes that have moved the cursor, by environment: what they write later may only make sense on the screen. */
const DRAWING = new WeakMap<object, Set<string | null>>();

function drawingOf({ target: { environment } }: Call): Set<string | null> {
  const drawing = DRAWING.get(environment) ?? new Set();
  DRAWING.set(environment, drawing);
  return drawing;
}

/** The control sequences that move the cursor to a row, or switch to the alternate screen. */
const ADDRESSES_CURSOR = /\x1b\[(?:\d*(?:;\d*)?[Hf]|\d*d|\?(?:47|1047|1049)h)/;
