import { FitAddon } from '@xterm/addon-fit';
import type { SearchAddon } from '@xterm/addon-search';
import { Unicode11Addon } from '@xterm/addon-unicode11';
import { WebLinksAddon } from '@xterm/addon-web-links';
import { Terminal } from '@xterm/xterm';
import type { ProcessScreen } from '../../../../src/client/browser.ts';
import { limitCells } from '../../../../src/process/screen/cell-limit.ts';
import { isDrawable } from '../../../../src/process/screen/drawable.ts';
import { refuseLongRepeats } from '../../../../src/process/screen/long-repeats.ts';
import { printable } from '../../base/format.ts';
import { dark, preferences } from '../../base/preferences.ts';
import { Store } from '../../base/store.ts';
import type { ProcessDisplay, ProcessSession } from '../../connection/process-session.ts';
import { limitLinks } from './link-limit.ts';
import { limitResets } from './reset-limit.ts';
import { MONOSPACE, terminalTheme } from './terminal-theme.ts';
import { WriteQueue } from './write-queue.ts';

const SCROLLBACK_LINES = 5000;
/** The memory for the history of a very wide terminal: 60 MB. A cell takes 12 bytes. */
const MAX_SCROLLBACK_CELLS = 5_000_000;
const MAX_TITLE_LENGTH = 200;
const MAX_CLIPBOARD_LENGTH = 100_000;
const RESIZE_DELAY_MS = 80;
const TOO_LARGE = 'That is too large to show.';

/** The terminal of a process: an xterm that reaches the page only through the stores below. */
export class TerminalDisplay implements ProcessDisplay {
  /** The title that the program has set. Text, never markup. */
  readonly title = new Store('');
  /** Why the terminal does not show what the program prints. */
  readonly problem = new Store<string | null>(null);
  /** A link that was clicked. The program decides what of its text can be seen, so the user sees the target first. */
  readonly link = new Store<string | null>(null);
  /** The target of the link under the pointer. */
  readonly hovered = new Store<string | null>(null);
  /** What the program wants to put into the clipboard. It needs the user's consent. */
  readonly clipboard = new Store<string | null>(null);
  /** Whether the next key is sent with Ctrl, for keyboards without it. */
  readonly ctrl = new Store(false);
  /** How many keys were typed while this page watched. They reach no program. */
  readonly ignoredKeys = new Store(0);
  readonly terminal: Terminal;
  readonly #session: ProcessSession;
  readonly #fit = new FitAddon();
  readonly #queue: WriteQueue;
  readonly #element = document.createElement('div');
  readonly #stops: (() => void)[] = [];
  #search: Promise<SearchAddon> | null = null;
  #opened = false;
  #resizeTimer: ReturnType<typeof setTimeout> | undefined;
  #sentSize = '';
  /** What was typed in this turn, and what the terminal answers. */
  #typed = '';
  /** Whether the terminal gets old output. Then it must not answer to it, set the title or ask for the clipboard. */
  #isReplaying = false;
  /** How many screens are being drawn. Each needs the size that it was made for. */
  #drawings = 0;

  constructor(session: ProcessSession) {
    this.#session = session;
    this.#element.className = 'terminal-host';
    const { fontSize, screenReader } = preferences.value;
    this.terminal = new Terminal({
      allowProposedApi: true,
      fontFamily: MONOSPACE,
      fontSize,
      lineHeight: 1.15,
      scrollback: SCROLLBACK_LINES,
      theme: terminalTheme(dark.value),
      screenReaderMode: screenReader,
      cursorBlink: !matchMedia('(prefers-reduced-motion: reduce)').matches,
      macOptionIsMeta: true,
      minimumContrastRatio: 4.5,
      // A hyperlink can show one address and lead to another, so a click asks first.
      linkHandler: {
        activate: (_event, target) => this.link.set(target),
        hover: (_event, target) => this.hovered.set(printable(target)),
        leave: () => this.hovered.set(null),
        allowNonHttpProtocols: false,
      },
    });
    this.#queue = new WriteQueue(this.terminal, {
      onDropped: (bytes) =>
        session.redraw(`${bytes.toLocaleString()} bytes arrived while this page was hidden`),
      onStuck: () => this.problem.set('This terminal has failed. Load the page again to see the program.'),
    });
    refuseLongRepeats(this.terminal, () => {});
    limitLinks(this.terminal);
    limitResets(this.terminal);
    this.terminal.loadAddon(this.#fit);
    limitCells(this.terminal, new Unicode11Addon());
    const hover = {
      hover: (_: MouseEvent, target: string) => this.hovered.set(printable(target)),
      leave: () => this.hovered.set(null),
    };
    this.terminal.loadAddon(new WebLinksAddon((_event, target) => this.link.set(target), hover));
    this.terminal.onTitleChange((title) => {
      if (!this.#isReplaying) this.title.set(printable(title.slice(0, MAX_TITLE_LENGTH)));
    });
    this.terminal.onData((data) => {
      if (!this.#isReplaying) this.#type(this.#withCtrl(data));
    });
    this.terminal.onKey(() => {
      const { role, phase } = session.state.value;
      if (role === 'viewer' && phase === 'live') this.ignoredKeys.set(this.ignoredKeys.value + 1);
    });
    this.terminal.onBinary((data) => {
      if (this.#isReplaying) return;
      this.#sendTyped();
      session.write(Uint8Array.from(data, (char) => char.charCodeAt(0)));
    });
    this.terminal.parser.registerOscHandler(52, (data) => this.#requestCopy(data));
    this.#element.addEventListener('paste', (event) => this.#paste(event), { capture: true });
    this.terminal.attachCustomKeyEventHandler((event) => this.keyHandler(event));
    this.#stops.push(
      dark.subscribe((isDark) => {
        this.terminal.options.theme = terminalTheme(isDark);
      }),
      preferences.subscribe((value) => {
        this.terminal.options.screenReaderMode = value.screenReader;
        this.fit();
      }),
      session.state.subscribe(() => this.fit()),
    );
  }

  /** Handles keys of the page before the program gets them. The view sets it. Returns whether the program gets the key. */
  keyHandler: (event: KeyboardEvent) => boolean = () => true;

  /** Puts the terminal into the page. */
  mount(parent: HTMLElement): () => void {
    parent.append(this.#element);
    if (!this.#opened) this.terminal.open(this.#element);
    this.#opened = true;
    const observer = new ResizeObserver(() => this.fit());
    observer.observe(parent);
    this.fit();
    return () => {
      observer.disconnect();
      this.#element.remove();
    };
  }

  focus(): void {
    this.terminal.focus();
  }

  /**
   * A driver's terminal has the size of the page. A viewer's has that of the driver, and that of a program that has ended keeps its size:
   * the output was written for it. The letters become smaller if it does not fit.
   */
  fit(): void {
    if (this.#drawings > 0) return;
    const { role, phase, info } = this.#session.state.value;
    const isDriver = role === 'driver' && phase === 'live' && info?.state !== 'closed';
    // The output also arrives before the terminal is in the page.
    if (!isDriver && info?.size) this.#resize(info.size);
    if (!this.#element.isConnected || this.#element.clientWidth === 0) return;
    const { fontSize } = preferences.value;
    if (this.terminal.options.fontSize !== fontSize) this.terminal.options.fontSize = fontSize;
    const proposed = this.#fit.proposeDimensions();
    if (proposed === undefined || Number.isNaN(proposed.cols)) return;
    if (isDriver) {
      const cols = Math.max(2, proposed.cols);
      const rows = Math.max(1, proposed.rows);
      this.#resize({ cols, rows });
      this.#sendSize(rows, cols);
      return;
    }
    this.#sentSize = '';
    const size = info?.size;
    if (!size) return;
    const scale = Math.min(1, proposed.cols / size.cols, proposed.rows / size.rows);
    const smaller = Math.max(7, Math.floor(fontSize * scale * 2) / 2);
    if (smaller !== fontSize) this.terminal.options.fontSize = smaller;
  }

  async screen(screen: ProcessScreen, before: readonly Uint8Array[] | string): Promise<void> {
    this.#queue.discard();
    if (typeof before === 'string') {
      // What is on the screen moves into the history. The rest of the state must not reach the new screen.
      const gap = `${RESET_MODES}${gapLine(before)}${'\r\n'.repeat(this.terminal.rows)}${CLEAR}`;
      const parsing = this.#queue.parse(gap);
      if (!document.hidden) await parsing;
    }
    this.#drawings++;
    const drawn = () => {
      this.#drawings--;
      this.fit();
    };
    try {
      this.#resize(screen);
      if (typeof before !== 'string') await this.#replay(before, screen);
    } catch (error) {
      drawn();
      throw error;
    }
    // A hidden page parses seldom, and the program must not wait for that.
    const parsing = this.#queue.parse(screen.redraw).then(drawn);
    if (!document.hidden) await parsing;
  }

  output(bytes: Uint8Array): Promise<void> | void {
    return this.#queue.write(bytes);
  }

  gap(text: string): Promise<void> | void {
    return this.#queue.write(gapLine(text));
  }

  /** The search addon, loaded on first use. */
  search(): Promise<SearchAddon> {
    this.#search ??= import('@xterm/addon-search').then(({ SearchAddon: Addon }) => {
      const addon = new Addon();
      this.terminal.loadAddon(addon);
      return addon;
    });
    return this.#search;
  }

  close(): void {
    clearTimeout(this.#resizeTimer);
    for (const stop of this.#stops) stop();
    this.#queue.close();
    this.terminal.dispose();
  }

  /** Fills the history with old output, without the last of it, which the screen shows. */
  async #replay(output: readonly Uint8Array[], screen: ProcessScreen): Promise<void> {
    if (output.length === 0) return;
    this.#isReplaying = true;
    for (const bytes of output) this.terminal.write(bytes);
    await this.#queue.parse(RESET_MODES);
    const above = screen.alternate ? 0 : linesAbove(screen.text, this.#visibleLines());
    await this.#queue.parse(`\x1b[${screen.rows}H${'\n'.repeat(above)}${CLEAR}`);
    this.#isReplaying = false;
  }

  /** The size comes from the program's terminal. One that would take too much memory is not shown. */
  #resize(size: { readonly rows: number; readonly cols: number }): void {
    const { rows, cols } = size;
    const isTooLarge = !isDrawable(size);
    const text = `This terminal has ${rows.toLocaleString()} rows and ${cols.toLocaleString()} columns. ${TOO_LARGE}`;
    if (isTooLarge || this.problem.value?.endsWith(TOO_LARGE)) this.problem.set(isTooLarge ? text : null);
    if (isTooLarge || (cols === this.terminal.cols && rows === this.terminal.rows)) return;
    this.terminal.options.scrollback = Math.min(SCROLLBACK_LINES, Math.floor(MAX_SCROLLBACK_CELLS / cols));
    this.terminal.resize(cols, rows);
  }

  /** Text must not end the bracketed paste that it is in: the program would take the rest for typed keys. */
  #paste(event: ClipboardEvent): void {
    event.preventDefault();
    event.stopPropagation();
    const text = event.clipboardData?.getData('text/plain') ?? '';
    this.terminal.paste(text.replaceAll(/[\u001b\u0080-\u009f]/g, '\ufffd'));
  }

  #visibleLines(): string[] {
    const { rows } = this.terminal;
    const { active } = this.terminal.buffer;
    const line = (row: number) => active.getLine(active.baseY + row)?.translateToString(true) ?? '';
    return Array.from({ length: rows }, (_, row) => line(row));
  }

  #sendSize(rows: number, cols: number): void {
    const size = `${rows}x${cols}`;
    if (size === this.#sentSize) return;
    clearTimeout(this.#resizeTimer);
    const delay = this.#sentSize === '' ? 0 : RESIZE_DELAY_MS;
    this.#resizeTimer = setTimeout(() => {
      this.#sentSize = size;
      this.#session.resize(rows, cols);
    }, delay);
  }

  /** What comes in one turn is one request: a terminal can have thousands of answers to one piece of output. */
  #type(data: string): void {
    if (this.#typed === '') queueMicrotask(() => this.#sendTyped());
    this.#typed += data;
  }

  #sendTyped(): void {
    if (this.#typed !== '') this.#session.write(this.#typed);
    this.#typed = '';
  }

  #withCtrl(data: string): string {
    if (!this.ctrl.value || data.length !== 1) return data;
    this.ctrl.set(false);
    const code = data.toUpperCase().charCodeAt(0);
    return code >= 0x3f && code <= 0x5f ? String.fromCharCode(code === 0x3f ? 0x7f : code & 0x1f) : data;
  }

  /** OSC 52. A question for the content of the clipboard gets no answer. */
  #requestCopy(data: string): boolean {
    const [, content = ''] = data.split(';', 2);
    if (this.#isReplaying || this.#session.showsPast) return true;
    if (content === '?' || content === '' || content.length > MAX_CLIPBOARD_LENGTH) return true;
    try {
      const bytes = Uint8Array.from(atob(content), (char) => char.charCodeAt(0));
      this.clipboard.set(new TextDecoder().decode(bytes));
    } catch {
      // It is not base64.
    }
    return true;
  }
}

/** Leaves the alternate screen, and turns off attributes, mouse reports, bracketed paste and application keys. */
const RESET_MODES =
  '\x1b[?1049l\x1b[!p\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[?1l\x1b>\x1b[?7h\x1b[0m';

/**
 * How many of the lines are above the screen: a terminal that became larger has empty lines at its end instead. All of them where the
 * screen cannot be found.
 */
function linesAbove(screen: string, lines: readonly string[]): number {
  const shown = screen.split('\n').map((line) => line.trimEnd());
  const isScreen = (above: number) =>
    lines.slice(above).every((line, row) => line.trimEnd() === (shown[row] ?? ''));
  const found = lines.findIndex((_, above) => isScreen(above));
  return found < 0 ? lines.length : found;
}

const CLEAR = '\x1b[H\x1b[2J';

function gapLine(text: string): string {
  return `\r\n\x1b[0;2m┄┄ ${text} ┄┄\x1b[0m\r\n`;
}
