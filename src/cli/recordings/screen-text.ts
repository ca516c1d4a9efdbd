import type { Terminal } from '@xterm/headless';
import { isDrawable } from '../../process/screen/drawable.ts';
import { loadLibrary } from '../../process/screen/headless-terminal.ts';
import { MAX_SCREEN_CELLS } from '../../process/screen/limits.ts';
import { refuseLongRepeats } from '../../process/screen/long-repeats.ts';
import { write } from '../../process/screen/terminal-probe.ts';
import type { TerminalSize } from '../../process/terminal-size.ts';
import type { CastEvent } from '../../recording/asciicast.ts';
import { RunError } from '../failures.ts';

/**
 * The text that a terminal showed, line by line as it scrolls out of it, and the last screen. A terminal in memory draws the recording,
 * so lines that were drawn several times are there once. Throws RunError when the terminal is too large to be drawn.
 */
export async function* screenText(
  size: TerminalSize,
  events: AsyncIterable<CastEvent>,
): AsyncGenerator<string> {
  requireDrawable(size);
  const { Terminal, Unicode11Addon } = loadLibrary();
  const terminal = new Terminal({
    rows: size.rows,
    cols: size.cols,
    scrollback: scrollbackOf(size),
    allowProposedApi: true,
    logLevel: 'off',
  });
  terminal.loadAddon(new Unicode11Addon());
  terminal.unicode.activeVersion = '11';
  refuseLongRepeats(terminal, () => {});
  const lines = new ScrolledLines(terminal);
  for await (const { code, text } of events) {
    if (code === 'r') resize(terminal, text);
    if (code !== 'o') continue;
    // Scrolls fewer lines than are kept.
    const pieceChars = scrollbackOf(terminal) - KEPT_LINES;
    for (let from = 0; from < text.length; from += pieceChars) {
      await write(terminal, Buffer.from(text.slice(from, from + pieceChars)));
      yield lines.scrolled();
    }
  }
  yield lines.rest();
  terminal.dispose();
}

/** Lines that scroll out of the screen are kept until they are taken. Wide lines take more memory. */
function scrollbackOf({ cols }: { readonly cols: number }): number {
  return KEPT_LINES + Math.min(MAX_PIECE_CHARS, Math.ceil(MAX_SCROLLBACK_CELLS / cols));
}

/** Lines beyond those that a piece of text can scroll. */
const KEPT_LINES = 16;
const MAX_PIECE_CHARS = 8_192;
const MAX_SCROLLBACK_CELLS = 4_000_000;

function resize(terminal: Terminal, text: string): void {
  const [cols = 0, rows = 0] = text.split('x').map(Number);
  if (!(cols > 0 && rows > 0 && cols < 65_536 && rows < 65_536)) return;
  requireDrawable({ rows, cols });
  // Lines that were taken are dropped before those that are left become wider.
  terminal.options.scrollback = scrollbackOf({ cols: Math.max(cols, terminal.cols) });
  terminal.resize(cols, rows);
  terminal.options.scrollback = scrollbackOf({ cols });
}

function requireDrawable(size: TerminalSize): void {
  if (isDrawable(size)) return;
  throw new RunError(
    `the recording has a terminal of ${size.cols}x${size.rows} characters, and text is taken from at most ${MAX_SCREEN_CELLS} of them; export it without --txt`,
    { kind: 'invalidInput' },
  );
}

/** Takes the lines that scroll out of a terminal. */
class ScrolledLines {
  readonly #terminal: Terminal;
  /** The first line that was not taken. Its number changes when older lines are dropped. */
  #next: ReturnType<Terminal['registerMarker']> | null = null;
  #isFirst = true;

  constructor(terminal: Terminal) {
    this.#terminal = terminal;
  }

  /** The lines that nothing can change any more. */
  scrolled(): string {
    const { active, normal } = this.#terminal.buffer;
    if (active.type === 'alternate') return '';
    const text = this.#take(normal.baseY);
    this.#next?.dispose();
    this.#next = this.#terminal.registerMarker(-normal.cursorY);
    return text;
  }

  /** The lines that are left, and the alternate screen if it is shown. */
  rest(): string {
    const { active, normal } = this.#terminal.buffer;
    const wasFirst = this.#isFirst;
    const left = this.#take(normal.length).trimEnd();
    // The first line has no newline before it.
    if (left === '' && wasFirst) this.#isFirst = true;
    const shown = active.type === 'alternate' ? left + this.#lines(active, 0, active.length) : left;
    const end = shown.trimEnd();
    return end === '' && this.#isFirst ? '' : `${end}\n`;
  }

  #take(end: number): string {
    const { normal } = this.#terminal.buffer;
    return this.#lines(normal, Math.max(0, this.#next?.line ?? 0), end);
  }

  /** Lines with a newline before each but the first. Those that the terminal has wrapped are joined. */
  #lines(buffer: Terminal['buffer']['normal'], start: number, end: number): string {
    let text = '';
    for (let index = start; index < end; index++) {
      const line = buffer.getLine(index);
      if (line === undefined) break;
      const isWrapped = buffer.getLine(index + 1)?.isWrapped ?? false;
      text += `${line.isWrapped || this.#isFirst ? '' : '\n'}${line.translateToString(!isWrapped)}`;
      this.#isFirst = false;
    }
    return text;
  }
}
