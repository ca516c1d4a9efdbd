import { setImmediate as nextTurn } from 'node:timers/promises';
import type { IBuffer, Terminal } from '@xterm/headless';
import { once } from '../../base/once.ts';
import { ProcessError } from '../errors.ts';
import type { TerminalSize } from '../terminal-size.ts';
import { ContentProof } from './content-proof.ts';
import { MAX_SCREEN_CELLS, MAX_SCREEN_LINES, PARSE_TURN_MS } from './limits.ts';
import { endOfStep, refuseLongRepeats } from './parse-steps.ts';
import { ProgramModes } from './program-modes.ts';
import { cellBefore, drawCells, drawHidden, drawVisible, isWhole, type VisibleScreen } from './redraw.ts';
import { titleSequence } from './terminal-modes.ts';
import { probeTerminal, writeNow } from './terminal-probe.ts';

/** A screen, and the bytes that draw it on a new terminal of its size. */
export interface DrawnScreen {
  readonly size: TerminalSize;
  readonly redraw: Buffer;
  readonly text: string;
  readonly cursor: { readonly row: number; readonly col: number };
  readonly alternate: boolean;
  readonly title: string;
  /** False when output that determines the screen was dropped. */
  readonly exact: boolean;
  /** Whether a line feed in the last line scrolls the whole screen, and nothing but escape sequences moves the cursor up. */
  readonly scrollsFully: boolean;
}

/** A part of what a terminal receives: output, or a new size. */
export type TerminalInput = Buffer | TerminalSize;

/** A screen that more output follows. */
export interface ScreenStart {
  /** The size of the terminal that the input is for. */
  readonly size: TerminalSize;
  readonly input: readonly TerminalInput[];
  /** Whether the input draws the screen as it was. */
  readonly exact: boolean;
}

/** Draws what a terminal shows that starts with a screen and receives more input. */
export async function drawScreen(start: ScreenStart, inputs: readonly TerminalInput[]): Promise<DrawnScreen> {
  const terminal = await HeadlessTerminal.open(start.size);
  try {
    await terminal.receive(start.input);
    if (!start.exact) terminal.expectProof();
    await terminal.receive(inputs);
    return await terminal.draw();
  } finally {
    terminal.dispose();
  }
}

/** Whether a terminal of this size can be drawn. */
export function isDrawable({ rows, cols }: TerminalSize): boolean {
  return rows * cols <= MAX_SCREEN_CELLS && Math.max(rows, cols) <= MAX_SCREEN_LINES;
}

/** A terminal in memory, without scrollback. */
class HeadlessTerminal {
  readonly #terminal: Terminal;
  readonly #modes: ProgramModes;
  #proof: ContentProof | null = null;
  #title = '';
  #turnEnd = performance.now() + PARSE_TURN_MS;

  private constructor(terminal: Terminal) {
    this.#terminal = terminal;
    this.#modes = new ProgramModes(terminal);
    refuseLongRepeats(terminal, () => this.expectProof());
    terminal.onTitleChange((title) => {
      this.#title = title;
    });
  }

  static async open(size: TerminalSize): Promise<HeadlessTerminal> {
    checkSize(size);
    const { Terminal, Unicode11Addon } = await loadLibrary();
    const { rows, cols } = size;
    const terminal = new Terminal({ rows, cols, scrollback: 0, allowProposedApi: true, logLevel: 'off' });
    // The widths that current programs use. The default is Unicode 6, in which emoji are narrow.
    terminal.loadAddon(new Unicode11Addon());
    terminal.unicode.activeVersion = '11';
    return new HeadlessTerminal(terminal);
  }

  async receive(inputs: readonly TerminalInput[]): Promise<void> {
    for (const input of inputs) {
      if (Buffer.isBuffer(input)) await this.#write(input);
      else this.#resize(input);
    }
  }

  /** From now on the screen is exact only once the output proves it. */
  expectProof(): void {
    this.#proof ??= new ContentProof(this.#terminal);
    this.#proof.restart();
  }

  /** Reads the screen. The terminal cannot be used any more after this. */
  async draw(): Promise<DrawnScreen> {
    const terminal = this.#terminal;
    const { rows, cols } = terminal;
    const { active, normal } = terminal.buffer;
    const cursor = { row: active.cursorY, col: active.cursorX };
    const alternate = active.type === 'alternate';
    const { reverseWraparoundMode } = terminal.modes;
    const visible: VisibleScreen = {
      cells: drawCells(active, terminal),
      cursor,
      lastCell: cursor.col < cols ? null : cellBefore(active, cursor.row, cols),
      originMode: terminal.modes.originMode,
      modes: this.#modes.sequences(),
    };
    const hiddenCells = alternate ? drawCells(normal, terminal) : '';
    const text = textOf(active, rows);
    const exact = this.#proof?.proven ?? true;
    const probe = await probeTerminal(terminal, this.#modes);
    const title = this.#title === '' ? '' : titleSequence(this.#title);
    const hidden =
      probe.hidden === null ? '' : drawHidden(probe.hidden, hiddenCells, this.#modes.hiddenKeyboard());
    return {
      size: { rows, cols },
      redraw: Buffer.from(title + hidden + drawVisible(visible, probe)),
      text,
      cursor: { row: cursor.row, col: Math.min(cursor.col, cols - 1) },
      alternate,
      title: this.#title,
      exact,
      scrollsFully: isWhole(probe.active.margins) && !reverseWraparoundMode,
    };
  }

  dispose(): void {
    this.#terminal.dispose();
  }

  async #write(bytes: Buffer): Promise<void> {
    for (let from = 0, end = 0; from < bytes.length; from = end) {
      if (performance.now() >= this.#turnEnd) {
        await nextTurn();
        this.#turnEnd = performance.now() + PARSE_TURN_MS;
      }
      end = endOfStep(bytes, from, this.#terminal);
      await writeNow(this.#terminal, bytes.subarray(from, end));
    }
  }

  #resize(size: TerminalSize): void {
    checkSize(size);
    this.#terminal.resize(size.cols, size.rows);
  }
}

function checkSize(size: TerminalSize): void {
  if (isDrawable(size)) return;
  throw new ProcessError(
    'terminalTooLarge',
    `the terminal has ${size.rows} rows and ${size.cols} columns; a screen has at most ${MAX_SCREEN_CELLS} characters and ${MAX_SCREEN_LINES} rows or columns. Resize the terminal`,
  );
}

function textOf(buffer: IBuffer, rows: number): string {
  const lines = Array.from(
    { length: rows },
    (_, row) => buffer.getLine(buffer.baseY + row)?.translateToString(true) ?? '',
  );
  return lines.join('\n');
}

/** The library is loaded with the first screen: servers that draw none do without its memory. */
const loadLibrary = once(async () => {
  const [xterm, unicode] = await Promise.all([import('@xterm/headless'), import('@xterm/addon-unicode11')]);
  // CommonJS modules.
  return { Terminal: xterm.default.Terminal, Unicode11Addon: unicode.default.Unicode11Addon };
});
