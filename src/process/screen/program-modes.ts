import type { Terminal } from '@xterm/headless';
import { MAX_KEYBOARD_STACK, MAX_LINK_CHARACTERS, MAX_PRIVATE_MODES } from './limits.ts';

type Params = readonly (number | number[])[];

/** The modes that a program has set, also those that the library ignores and the terminal of a client may know. */
export class ProgramModes {
  readonly #terminal: Terminal;
  /** In the order in which they were last set: a later mouse encoding replaces an earlier one. */
  readonly #private = new Map<number, boolean>();
  readonly #keyboard = { normal: new KeyboardModes(), alternate: new KeyboardModes() };
  #modifyOtherKeys = '';
  #cursorStyle = '';
  #link = '';
  #tabStopsChanged = false;

  constructor(terminal: Terminal) {
    this.#terminal = terminal;
    const { parser } = terminal;
    const csi = (
      id: { prefix?: string; intermediates?: string; final: string },
      handle: (params: Params) => void,
    ) =>
      parser.registerCsiHandler(id, (params) => {
        handle(params);
        return false;
      });
    const esc = (final: string, handle: () => void) =>
      parser.registerEscHandler({ final }, () => {
        handle();
        return false;
      });
    csi({ prefix: '?', final: 'h' }, (params) => this.#setPrivate(params, true));
    csi({ prefix: '?', final: 'l' }, (params) => this.#setPrivate(params, false));
    csi({ intermediates: ' ', final: 'q' }, (params) => {
      this.#cursorStyle = `\x1b[${first(params)} q`;
    });
    csi({ intermediates: '!', final: 'p' }, () => this.#private.delete(CURSOR_VISIBLE));
    csi({ prefix: '>', final: 'm' }, (params) => {
      this.#modifyOtherKeys = `\x1b[>${params.flat().join(';')}m`;
    });
    csi({ prefix: '>', final: 'u' }, (params) => this.#activeKeyboard().push(first(params)));
    csi({ prefix: '<', final: 'u' }, (params) => this.#activeKeyboard().pop(first(params) || 1));
    csi({ prefix: '=', final: 'u' }, (params) => {
      this.#activeKeyboard().set(first(params), Number(params[1] ?? 1));
    });
    parser.registerOscHandler(8, (link) => {
      this.#link = link.endsWith(';') || link.length > MAX_LINK_CHARACTERS ? '' : link;
      return false;
    });
    csi({ final: 'g' }, () => this.#changeTabStops());
    esc('H', () => this.#changeTabStops());
    esc('c', () => this.#reset());
  }

  /** Whether the text that comes next belongs to a link. */
  get hasLink(): boolean {
    return this.#link !== '';
  }

  /** Whether the program has set or cleared tab stops. */
  get tabStopsChanged(): boolean {
    return this.#tabStopsChanged;
  }

  /** The sequences that set the modes on a new terminal, besides origin mode and the alternate screen. */
  sequences(): string {
    const { modes } = this.#terminal;
    const known = [
      modes.applicationCursorKeysMode ? '\x1b[?1h' : '',
      modes.applicationKeypadMode ? '\x1b=' : '',
      modes.bracketedPasteMode ? '\x1b[?2004h' : '',
      modes.sendFocusMode ? '\x1b[?1004h' : '',
      modes.reverseWraparoundMode ? '\x1b[?45h' : '',
      modes.wraparoundMode ? '' : '\x1b[?7l',
      modes.insertMode ? '\x1b[4h' : '',
      MOUSE_MODES[modes.mouseTrackingMode],
    ];
    const others = [...this.#private].map(([mode, set]) =>
      mode === CURSOR_VISIBLE && set ? '' : `\x1b[?${mode}${set ? 'h' : 'l'}`,
    );
    return [
      ...known,
      ...others,
      this.#cursorStyle,
      this.#modifyOtherKeys,
      this.#activeKeyboard().sequences(),
      this.#link === '' ? '' : `\x1b]8;${this.#link}\x07`,
    ].join('');
  }

  /** The key protocols of the main screen while the alternate one is visible. */
  hiddenKeyboard(): string {
    return this.#keyboard.normal.sequences();
  }

  #activeKeyboard(): KeyboardModes {
    return this.#keyboard[this.#terminal.buffer.active.type];
  }

  #setPrivate(params: Params, set: boolean): void {
    for (const mode of params.flat()) {
      if (READ_FROM_TERMINAL.has(mode)) continue;
      this.#private.delete(mode);
      if (this.#private.size < MAX_PRIVATE_MODES) this.#private.set(mode, set);
    }
  }

  #changeTabStops(): void {
    this.#tabStopsChanged = true;
  }

  #reset(): void {
    this.#private.clear();
    this.#keyboard.normal.reset();
    this.#keyboard.alternate.reset();
    this.#modifyOtherKeys = '';
    this.#cursorStyle = '';
    this.#link = '';
    this.#tabStopsChanged = false;
  }
}

/** The flags of the kitty keyboard protocol: those in use, and the stack that programs push them to. */
class KeyboardModes {
  #flags = 0;
  #stack: number[] = [];

  push(flags: number): void {
    this.#stack.push(this.#flags);
    if (this.#stack.length > MAX_KEYBOARD_STACK) this.#stack.shift();
    this.#flags = flags;
  }

  pop(count: number): void {
    for (let left = Math.min(count, MAX_KEYBOARD_STACK); left > 0; left--)
      this.#flags = this.#stack.pop() ?? 0;
  }

  /** `how` is 1 to replace the flags, 2 to add these and 3 to remove these. */
  set(flags: number, how: number): void {
    this.#flags = how === 2 ? this.#flags | flags : how === 3 ? this.#flags & ~flags : flags;
  }

  reset(): void {
    this.#flags = 0;
    this.#stack = [];
  }

  sequences(): string {
    const [base = this.#flags, ...pushed] = [...this.#stack, this.#flags];
    return (base === 0 ? '' : `\x1b[=${base}u`) + pushed.map((flags) => `\x1b[>${flags}u`).join('');
  }
}

function first(params: Params): number {
  return Number(params[0] ?? 0);
}

const CURSOR_VISIBLE = 25;

/** Private modes that the library returns, that the drawing handles, or that last for a moment: 2026 is synchronised output. */
const READ_FROM_TERMINAL = new Set([
  1, 3, 6, 7, 9, 45, 47, 66, 1000, 1002, 1003, 1004, 1047, 1048, 1049, 2004, 2026,
]);

const MOUSE_MODES = {
  none: '',
  x10: '\x1b[?9h',
  vt200: '\x1b[?1000h',
  drag: '\x1b[?1002h',
  any: '\x1b[?1003h',
} as const;
