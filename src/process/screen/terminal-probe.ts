import type { Terminal } from '@xterm/headless';
import type { ProgramModes } from './program-modes.ts';
import { type Attributes, attributesOf } from './redraw.ts';

/** The first and the last line that scroll, counted from 0, of a screen with this many rows. */
export interface Margins {
  readonly top: number;
  readonly bottom: number;
  readonly rows: number;
}

export interface SavedCursor {
  readonly row: number;
  readonly col: number;
  readonly pen: Attributes;
  /** The final byte that designates the character set. */
  readonly charset: string;
}

/** State of a buffer that the interface of the library does not have. */
export interface BufferProbe {
  readonly margins: Margins;
  readonly saved: SavedCursor;
}

export interface TerminalProbe {
  readonly active: BufferProbe;
  readonly pen: Attributes;
  /** The main buffer while the alternate one is active. */
  readonly hidden: BufferProbe | null;
  /** The sequences that designate and select the character sets; empty for ASCII. */
  readonly charsets: string;
  /** Columns; null when the program has not changed them. */
  readonly tabStops: readonly number[] | null;
}

/**
 * Finds out the state that the library does not return: it asks for the margins as a program would, and writes characters to see how they
 * are drawn. This destroys the screen.
 */
export async function probeTerminal(
  terminal: Terminal,
  { hasLink, tabStopsChanged }: Pick<ProgramModes, 'hasLink' | 'tabStopsChanged'>,
): Promise<TerminalProbe> {
  const script = new ProbeScript(terminal);
  // The library shows a link as an underline.
  if (hasLink) script.write('\x1b]8;;\x07');
  const isAlternate = terminal.buffer.active.type === 'alternate';
  const margins = script.margins();
  const current = script.charset('');
  const pen = script.pen();
  const sets = SELECT_CHARSET.map((select) => script.charset(select));
  const tabStops = tabStopsChanged ? script.tabStops() : null;
  const saved = script.savedCursor('\x1b8');
  const hidden = isAlternate
    ? { margins: script.margins('\x1b[?1049l'), saved: script.savedCursor('\x1b[?1049l') }
    : null;
  await script.run();
  return {
    active: { margins: margins(), saved: saved() },
    pen: pen(),
    hidden: hidden === null ? null : { margins: hidden.margins(), saved: hidden.saved() },
    charsets: charsetSequences(
      current(),
      sets.map((set) => set()),
    ),
    tabStops: tabStops?.() ?? null,
  };
}

/** Sequences to write, and what to read in between. Each method returns the function that returns its result after `run`. */
class ProbeScript {
  readonly #terminal: Terminal;
  readonly #reads: (() => void)[] = [];
  #text = '';
  #reply = '';

  constructor(terminal: Terminal) {
    this.#terminal = terminal;
  }

  write(bytes: string): void {
    this.#text += bytes;
  }

  margins(before = ''): () => Margins {
    const { rows } = this.#terminal;
    const reply = this.#read(`${before}\x1bP$qr\x1b\\`, () => this.#reply);
    return () => {
      const [, top = '1', bottom = `${rows}`] = /(\d+);(\d+)r/.exec(reply()) ?? [];
      return { top: Number(top) - 1, bottom: Number(bottom) - 1, rows };
    };
  }

  cursor(bytes: string): () => { row: number; col: number } {
    return this.#read(bytes, () => {
      const { cursorX, cursorY } = this.#terminal.buffer.active;
      return { row: cursorY, col: Math.min(cursorX, this.#terminal.cols - 1) };
    });
  }

  /** `restore` moves the cursor to where it was saved. */
  savedCursor(restore: string): () => SavedCursor {
    const position = this.cursor(restore);
    const [pen, charset] = [this.pen(), this.charset('')];
    return () => ({ ...position(), pen: pen(), charset: charset() });
  }

  pen(): () => Attributes {
    return this.#read(`${AT_HOME}x`, () => {
      const cell = this.#firstCell();
      return cell === undefined ? '' : attributesOf(cell);
    });
  }

  /** The final byte that designates the character set. */
  charset(select: string): () => string {
    const drawn = ['q', '#'].map((char) =>
      this.#read(select + AT_HOME + char, () => this.#firstCell()?.getChars()),
    );
    return () => {
      const [graphic, pound] = drawn.map((chars) => chars());
      return graphic === '\u2500' ? '0' : pound === '\u00a3' ? 'A' : 'B';
    };
  }

  tabStops(): () => number[] {
    const { cols } = this.#terminal;
    this.write(AT_HOME);
    const columns = Array.from({ length: cols }, () => this.cursor('\t'));
    return () => [...new Set(columns.map((column) => column().col))].filter((col) => col < cols - 1);
  }

  async run(): Promise<void> {
    const terminal = this.#terminal;
    let next = 0;
    const handler = terminal.parser.registerOscHandler(MARKER, () => {
      this.#reads[next++]?.();
      return true;
    });
    const replies = terminal.onData((reply) => {
      if (reply !== '') this.#reply = reply;
    });
    await write(terminal, this.#text);
    handler.dispose();
    replies.dispose();
  }

  #read<T>(bytes: string, read: () => T): () => T {
    let value: T;
    this.#text += `${bytes}\x1b]${MARKER}\x07`;
    this.#reads.push(() => {
      value = read();
    });
    return () => value;
  }

  #firstCell() {
    const { active } = this.#terminal.buffer;
    return active.getLine(active.baseY)?.getCell(0);
  }
}

/** Writes to a terminal. Resolves when it has parsed the bytes. */
export function write(terminal: Terminal, bytes: Uint8Array | string): Promise<void> {
  return new Promise((resolve) => terminal.write(bytes, resolve));
}

/** Leaves margins, origin mode and insert mode, and moves the cursor home. */
const AT_HOME = '\x1b[r\x1b[?6l\x1b[4l\x1b[H';

/** Select the character sets G0 to G3. */
const SELECT_CHARSET = ['\x0f', '\x0e', '\x1bn', '\x1bo'] as const;
const DESIGNATE_CHARSET = ['(', ')', '*', '+'] as const;

/** A number of no known OSC sequence. It is handled only while a script runs. */
const MARKER = 7770;

function charsetSequences(current: string, sets: readonly string[]): string {
  const designations = sets.map((set, index) => (set === 'B' ? '' : `\x1b${DESIGNATE_CHARSET[index]}${set}`));
  const selected = Math.max(0, sets.indexOf(current));
  return designations.join('') + (selected === 0 ? '' : SELECT_CHARSET[selected]);
}
