import type { IBuffer, IBufferCell, IBufferLine } from '@xterm/headless';
import type { TerminalSize } from '../terminal-size.ts';
import { MAX_CELL_CHARACTERS } from './limits.ts';
import { cutText } from './terminal-modes.ts';
import type { BufferProbe, Margins, SavedCursor, TerminalProbe } from './terminal-probe.ts';

/** The attributes of one cell or of the text that comes next, as the parameters of an SGR sequence behind a reset. */
export type Attributes = string;

/** What is read from the visible buffer before the terminal is probed. */
export interface VisibleScreen {
  readonly cells: string;
  readonly cursor: { readonly row: number; readonly col: number };
  /** The character in the last column when the cursor is behind it: the next character goes to the next line. */
  readonly lastCell: Cell | null;
  readonly originMode: boolean;
  /** The sequences that set the modes. */
  readonly modes: string;
}

interface Cell {
  readonly col: number;
  readonly chars: string;
  readonly attributes: Attributes;
}

/** Draws the visible buffer. Modes that change how text is drawn come behind it. */
export function drawVisible(
  { cells, cursor, lastCell, originMode, modes }: VisibleScreen,
  { active, pen, hidden, tabStops, charsets }: TerminalProbe,
): string {
  const { margins, saved } = active;
  // Some terminals have one pair of margins for both buffers.
  const hasMargins = !isWhole(margins) || (hidden !== null && !isWhole(hidden.margins));
  const row = originMode ? cursor.row - margins.top : cursor.row;
  return [
    cells,
    tabStops === null ? '' : `\x1b[3g${tabStops.map((col) => `${moveTo(0, col)}\x1bH`).join('')}`,
    isDefault(saved) ? '' : atSavedCursor(saved, '\x1b7'),
    hasMargins ? setMargins(margins) : '',
    // Origin mode and margins move the cursor.
    originMode ? '\x1b[?6h' : '',
    moveTo(row, lastCell?.col ?? cursor.col),
    lastCell === null ? '' : setPen('', lastCell.attributes) + lastCell.chars,
    setPen(lastCell?.attributes ?? '', pen),
    charsets,
    modes,
  ].join('');
}

/** Draws the main buffer while the alternate one is visible, and switches to the empty alternate buffer. */
export function drawHidden({ margins, saved }: BufferProbe, cells: string, keyboard: string): string {
  return [
    cells,
    isWhole(margins) ? '' : setMargins(margins),
    keyboard,
    // The switch saves the cursor, and fills the buffer with the background of the pen.
    atSavedCursor(saved, '\x1b[?1049h'),
    '\x1b[2J',
  ].join('');
}

/** Whether the margins enclose the whole screen. */
export function isWhole({ top, bottom, rows }: Margins): boolean {
  return top === 0 && bottom === rows - 1;
}

/** The character that ends in the last column of a line. */
export function cellBefore(buffer: IBuffer, row: number, cols: number): Cell {
  const line = buffer.getLine(buffer.baseY + row);
  let col = cols - 1;
  let cell = line?.getCell(col);
  if (cell?.getWidth() === 0 && col > 0) cell = line?.getCell(--col);
  if (cell === undefined) return { col, chars: ' ', attributes: '' };
  return { col, chars: charsOf(cell) || ' ', attributes: attributesOf(cell) };
}

/** The characters of a cell, up to the limit. A program can put any number of combining characters into one cell. */
export function charsOf(cell: IBufferCell): string {
  return cutText(cell.getChars(), MAX_CELL_CHARACTERS);
}

/**
 * The bytes that draw the cells of a buffer on an empty screen of the same size, with the pen reset before and after. Calls `cut` for
 * cells with more characters than are drawn.
 */
export function drawCells(buffer: IBuffer, { rows, cols }: TerminalSize, cut: () => void): string {
  const lines = Array.from({ length: rows }, (_, row) => buffer.getLine(buffer.baseY + row));
  const parts = lines.map((line, row) => (row > 0 && line?.isWrapped ? markWrapped(row, cols) : ''));
  const cell = buffer.getNullCell();
  let pen: Attributes = '';
  for (const [row, line] of lines.entries()) {
    if (line === undefined) continue;
    const drawn = drawLine(line, row, cols, pen, cell, cut);
    parts.push(drawn.text);
    pen = drawn.pen;
  }
  return parts.join('') + setPen(pen, '');
}

/** The sequence that moves the cursor, counted from 0, while origin mode is off. */
export function moveTo(row: number, col: number): string {
  return `\x1b[${row + 1};${col + 1}H`;
}

/** The sequence that changes the pen; empty when it does not change. */
function setPen(from: Attributes, to: Attributes): string {
  return from === to ? '' : `\x1b[0${to}m`;
}

/** The attributes of a cell. The interface of the library has no style and colour of underlines and no links. */
export function attributesOf(cell: IBufferCell): Attributes {
  if (cell.isAttributeDefault()) return '';
  let attributes = '';
  if (cell.isBold()) attributes += ';1';
  if (cell.isDim()) attributes += ';2';
  if (cell.isItalic()) attributes += ';3';
  if (cell.isUnderline()) attributes += ';4';
  if (cell.isBlink()) attributes += ';5';
  if (cell.isInverse()) attributes += ';7';
  if (cell.isInvisible()) attributes += ';8';
  if (cell.isStrikethrough()) attributes += ';9';
  if (cell.isOverline()) attributes += ';53';
  if (cell.isFgRGB()) attributes += `;38;2;${rgb(cell.getFgColor())}`;
  else if (cell.isFgPalette()) attributes += palette(cell.getFgColor(), 30);
  return attributes + backgroundOf(cell);
}

/** A line as runs of text, with jumps over empty cells. Empty cells with a background are erased with it. */
function drawLine(
  line: IBufferLine,
  row: number,
  cols: number,
  penBefore: Attributes,
  cell: IBufferCell,
  cut: () => void,
): { readonly text: string; readonly pen: Attributes } {
  let text = '';
  let pen = penBefore;
  /** Where the bytes so far leave the cursor; -1 when it must be moved before something is drawn. */
  let cursor = -1;
  for (let col = 0; col < cols; col++) {
    line.getCell(col, cell);
    const width = cell.getWidth();
    if (width === 0) continue;
    const chars = charsOf(cell);
    if (chars.length < cell.getChars().length) cut();
    const attributes = chars === '' ? backgroundOf(cell) : attributesOf(cell);
    if (chars === '' && attributes === '') continue;
    if (cursor !== col) text += moveTo(row, col);
    text += setPen(pen, attributes);
    pen = attributes;
    if (chars === '') {
      const count = emptyCells(line, col, cols, attributes, cell);
      text += `\x1b[${count}X`;
      col += count - 1;
      cursor = -1;
    } else {
      text += chars;
      cursor = col + width;
    }
  }
  return { text, pen };
}

function emptyCells(
  line: IBufferLine,
  from: number,
  cols: number,
  background: Attributes,
  cell: IBufferCell,
): number {
  let col = from + 1;
  for (; col < cols; col++) {
    line.getCell(col, cell);
    if (cell.getChars() !== '' || cell.getWidth() === 0 || backgroundOf(cell) !== background) break;
  }
  return col - from;
}

/**
 * Makes a line the continuation of the line above, by writing across the right margin and erasing what was written. Terminals that
 * reflow text need to know this when they are resized.
 */
function markWrapped(row: number, cols: number): string {
  return `${moveTo(row - 1, cols - 1)}--${moveTo(row - 1, cols - 1)}\x1b[X${moveTo(row, 0)}\x1b[X`;
}

/** Writes bytes while the cursor is as it was saved. The cursor has the default pen and character set before and after. */
function atSavedCursor({ row, col, pen, charset }: SavedCursor, bytes: string): string {
  const [designate, restore] = charset === 'B' ? ['', ''] : [`\x1b(${charset}`, '\x1b(B'];
  return moveTo(row, col) + designate + setPen('', pen) + bytes + setPen(pen, '') + restore;
}

function isDefault({ row, col, pen, charset }: SavedCursor): boolean {
  return row === 0 && col === 0 && pen === '' && charset === 'B';
}

function setMargins({ top, bottom }: Margins): string {
  return `\x1b[${top + 1};${bottom + 1}r`;
}

function backgroundOf(cell: IBufferCell): Attributes {
  if (cell.isBgRGB()) return `;48;2;${rgb(cell.getBgColor())}`;
  return cell.isBgPalette() ? palette(cell.getBgColor(), 40) : '';
}

function rgb(color: number): string {
  return `${color >>> 16};${(color >>> 8) & 0xff};${color & 0xff}`;
}

/** `first` is 30 for the foreground and 40 for the background. */
function palette(color: number, first: number): string {
  if (color >= 16) return `;${first + 8};5;${color}`;
  return `;${color < 8 ? first + color : first + 60 + color - 8}`;
}
