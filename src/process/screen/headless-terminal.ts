import { createRequire } from 'node:module';
import type { IBuffer, IBufferLine, Terminal } from '@xterm/headless';
import { once } from '../../base/once.ts';
import type { TerminalSize } from '../terminal-size.ts';
import { ContentProof } from './content-proof.ts';
import type { DrawnScreen, ScreenStart, TerminalInput } from './drawn-screen.ts';
import { withoutErased } from './erased-output.ts';
import { refuseLongRepeats } from './long-repeats.ts';
import { ProgramModes } from './program-modes.ts';
import {
  cellBefore,
  charsOf,
  drawCells,
  drawHidden,
  drawVisible,
  isWhole,
  type VisibleScreen,
} from './redraw.ts';
import { cleanTitle, titleSequence } from './terminal-modes.ts';
import { probeTerminal, write } from './terminal-probe.ts';

/** Draws what a terminal shows that starts with a screen and receives more input. */
export async function drawScreen(start: ScreenStart, inputs: readonly TerminalInput[]): Promise<DrawnScreen> {
  const terminal = HeadlessTerminal.open(start.size);
  try {
    await terminal.receive(start.input);
    if (!start.exact) terminal.expectProof();
    await terminal.receive(withoutErased(inputs));
    return await terminal.draw();
  } finally {
    terminal.dispose();
  }
}

/** A terminal in memory, without scrollback. */
class HeadlessTerminal {
  readonly #terminal: Terminal;
  readonly #modes: ProgramModes;
  #proof: ContentProof | null = null;
  #title = '';
  /** The size of the program's terminal. The one in memory has at least two columns. */
  #size: TerminalSize;

  private constructor(terminal: Terminal, size: TerminalSize) {
    this.#terminal = terminal;
    this.#size = size;
    this.#modes = new ProgramModes(terminal);
    refuseLongRepeats(terminal, () => this.expectProof());
    terminal.onTitleChange((title) => {
      this.#title = cleanTitle(title);
    });
  }

  static open(size: TerminalSize): HeadlessTerminal {
    const { Terminal, Unicode11Addon } = loadLibrary();
    const { rows, cols } = size;
    const terminal = new Terminal({ rows, cols, scrollback: 0, allowProposedApi: true, logLevel: 'off' });
    // The widths that current programs use. The default is Unicode 6, in which emoji are narrow.
    terminal.loadAddon(new Unicode11Addon());
    terminal.unicode.activeVersion = '11';
    return new HeadlessTerminal(terminal, size);
  }

  async receive(inputs: readonly TerminalInput[]): Promise<void> {
    for (const input of inputs) {
      if (Buffer.isBuffer(input)) await write(this.#terminal, input);
      else this.#resize(input);
    }
  }

  #resize(size: TerminalSize): void {
    this.#size = size;
    this.#terminal.resize(size.cols, size.rows);
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
    let isCut = false;
    const cut = () => {
      isCut = true;
    };
    const visible: VisibleScreen = {
      cells: drawCells(active, terminal, cut),
      cursor,
      lastCell: cursor.col < cols ? null : cellBefore(active, cursor.row, cols),
      originMode: terminal.modes.originMode,
      modes: this.#modes.sequences(),
    };
    const hiddenCells = alternate ? drawCells(normal, terminal, cut) : '';
    const text = textOf(active, terminal);
    const isSameSize = cols === this.#size.cols && rows === this.#size.rows;
    const exact = isSameSize && !isCut && (this.#proof?.proven ?? true);
    const probe = await probeTerminal(terminal, this.#modes);
    const title = this.#title === '' ? '' : titleSequence(this.#title);
    const hidden =
      probe.hidden === null ? '' : drawHidden(probe.hidden, hiddenCells, this.#modes.hiddenKeyboard());
    return {
      size: this.#size,
      redraw: Buffer.from(title + hidden + drawVisible(visible, probe)),
      text,
      cursor: { row: cursor.row, col: Math.min(cursor.col, this.#size.cols - 1) },
      alternate,
      title: this.#title,
      exact,
      scrollsFully: isWhole(probe.active.margins) && !reverseWraparoundMode,
    };
  }

  dispose(): void {
    this.#terminal.dispose();
  }
}

function textOf(buffer: IBuffer, { rows, cols }: TerminalSize): string {
  const lines = Array.from({ length: rows }, (_, row) => {
    const line = buffer.getLine(buffer.baseY + row);
    const text = line?.translateToString(true) ?? '';
    // The text of a line has all combining characters of its cells.
    return line === undefined || text.length <= 2 * cols ? text : cellTexts(line, cols).join('').trimEnd();
  });
  return lines.join('\n');
}

function cellTexts(line: IBufferLine, cols: number): string[] {
  const cells = Array.from({ length: cols }, (_, col) => line.getCell(col));
  return cells.flatMap((cell) => (cell === undefined || cell.getWidth() === 0 ? [] : [charsOf(cell) || ' ']));
}

/**
 * Loads the library, which takes longer than drawing a screen. Its modules are CommonJS: `import` would parse each of them twice, the first
 * time for the names of its exports, and take more than three times as long.
 */
export const loadLibrary = once(() => {
  const require = createRequire(import.meta.url);
  const { Terminal } = require('@xterm/headless') as typeof import('@xterm/headless');
  const { Unicode11Addon } = require('@xterm/addon-unicode11') as typeof import('@xterm/addon-unicode11');
  return { Terminal, Unicode11Addon };
});
