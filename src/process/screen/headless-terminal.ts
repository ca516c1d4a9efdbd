import type { IBuffer, Terminal } from '@xterm/headless';
import { once } from '../../base/once.ts';
import type { TerminalSize } from '../terminal-size.ts';
import { ContentProof } from './content-proof.ts';
import type { DrawnScreen, ScreenStart, TerminalInput } from './drawn-screen.ts';
import { refuseLongRepeats } from './long-repeats.ts';
import { ProgramModes } from './program-modes.ts';
import { cellBefore, drawCells, drawHidden, drawVisible, isWhole, type VisibleScreen } from './redraw.ts';
import { titleSequence } from './terminal-modes.ts';
import { probeTerminal, write } from './terminal-probe.ts';

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

/** A terminal in memory, without scrollback. */
class HeadlessTerminal {
  readonly #terminal: Terminal;
  readonly #modes: ProgramModes;
  #proof: ContentProof | null = null;
  #title = '';

  private constructor(terminal: Terminal) {
    this.#terminal = terminal;
    this.#modes = new ProgramModes(terminal);
    refuseLongRepeats(terminal, () => this.expectProof());
    terminal.onTitleChange((title) => {
      this.#title = title;
    });
  }

  static async open(size: TerminalSize): Promise<HeadlessTerminal> {
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
      if (Buffer.isBuffer(input)) await write(this.#terminal, input);
      else this.#terminal.resize(input.cols, input.rows);
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
}

function textOf(buffer: IBuffer, rows: number): string {
  const lines = Array.from(
    { length: rows },
    (_, row) => buffer.getLine(buffer.baseY + row)?.translateToString(true) ?? '',
  );
  return lines.join('\n');
}

const loadLibrary = once(async () => {
  const [xterm, unicode] = await Promise.all([import('@xterm/headless'), import('@xterm/addon-unicode11')]);
  // CommonJS modules.
  return { Terminal: xterm.default.Terminal, Unicode11Addon: unicode.default.Unicode11Addon };
});
