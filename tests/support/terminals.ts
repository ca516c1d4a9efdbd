import unicode from '@xterm/addon-unicode11';
import xterm, { type IBuffer, type IBufferCell, type Terminal } from '@xterm/headless';
import { OutputLog } from '../../src/process/output-log.ts';
import { FoldBudget } from '../../src/process/screen/fold-budget.ts';
import { ScreenTracker } from '../../src/process/screen/screen-tracker.ts';
import type { TerminalSize } from '../../src/process/terminal-size.ts';

/** A terminal as a client has it, without scrollback. */
export function clientTerminal({ rows, cols }: TerminalSize): Terminal {
  const terminal = new xterm.Terminal({ rows, cols, scrollback: 0, allowProposedApi: true, logLevel: 'off' });
  terminal.loadAddon(new unicode.Unicode11Addon());
  terminal.unicode.activeVersion = '11';
  return terminal;
}

/** Rejects when the library fails on the bytes. */
export { write as feed } from '../../src/process/screen/terminal-probe.ts';

/** Everything that a terminal shows, and the modes that its interface returns. */
export function visibleState(terminal: Terminal) {
  const { active } = terminal.buffer;
  return {
    type: active.type,
    cursor: [active.cursorY, active.cursorX],
    modes: { ...terminal.modes, synchronizedOutputMode: false },
    lines: linesOf(active, terminal),
  };
}

function linesOf(buffer: IBuffer, { rows, cols }: TerminalSize): string[] {
  return Array.from({ length: rows }, (_, row) => {
    const line = buffer.getLine(buffer.baseY + row)!;
    const cells = Array.from({ length: cols }, (_, col) => cellText(line.getCell(col)!));
    return `${row > 0 && line.isWrapped ? '+' : ' '}${cells.join('')}`;
  });
}

/** A character with its attributes, if any. An empty cell looks like a space. */
function cellText(cell: IBufferCell): string {
  if (cell.getWidth() === 0) return '';
  const chars = cell.getChars() || ' ';
  if (cell.isAttributeDefault()) return chars;
  const flags = [
    cell.isBold(),
    cell.isDim(),
    cell.isItalic(),
    cell.isUnderline(),
    cell.isBlink(),
    cell.isInverse(),
    cell.isInvisible(),
    cell.isStrikethrough(),
    cell.isOverline(),
  ].map((flag) => (flag ? 1 : 0));
  // A palette colour below 16 can be selected in two ways.
  const foreground = [cell.isFgRGB() ? 'rgb' : cell.isFgPalette() ? 'palette' : '', cell.getFgColor()];
  const background = [cell.isBgRGB() ? 'rgb' : cell.isBgPalette() ? 'palette' : '', cell.getBgColor()];
  const isBlank = cell.getChars() === '' || (chars === ' ' && !flags.slice(3).includes(1));
  return isBlank
    ? cell.isBgDefault()
      ? ' '
      : `{${background}}`
    : `{${chars}${flags.join('')}:${foreground}:${background}}`;
}

/** Output that makes hidden state visible: pen, charset, margins, tab stops, saved cursor, main screen. */
export const REVEALING_OUTPUTS = [
  'pen\x1b[K#q~',
  '\x0e#q~\x0f#q~',
  '\n\n\n\n\n\n\n\n\n\n\n\nlow',
  '\x1bM\x1bM\x1bM\x1bM\x1bM\x1bM\x1bM\x1bM\x1bM\x1bM\x1bMhigh',
  '\r\tT\tT\tT',
  '\x1b[2;2Hhome',
  '\x1b8saved',
  '\x1b[?1049lmain',
  '\x1b8saved on main',
  '\n\n\n\n\n\n\n\n\n\n\n\nlow',
] as const;

/** The output log and the screen of a terminal, connected as in a process. */
export class TrackedTerminal {
  readonly log: OutputLog;
  readonly tracker: ScreenTracker;

  constructor(
    size: TerminalSize,
    retention: { readonly headBytes: number; readonly tailBytes: number },
    limits = { softBytes: 512, hardBytes: 1 << 20 },
    budget = new FoldBudget(() => 0),
  ) {
    this.log = new OutputLog({ ...retention, maxChunks: 10_000 }, (bytes) => this.tracker.evict(bytes));
    const { log } = this;
    this.tracker = new ScreenTracker(
      size,
      {
        get lastSeq() {
          return log.nextSeq - 1;
        },
        get totalBytes() {
          return log.totalBytes;
        },
        bytesFrom: (offset) => log.bytesFrom('pty', offset),
      },
      undefined,
      limits,
      budget,
    );
  }

  write(bytes: Uint8Array | string): void {
    this.log.append('pty', Buffer.from(bytes as string));
  }
}
