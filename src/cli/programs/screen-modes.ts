import { MAX_SEQUENCE_BYTES } from './limits.ts';

const ESCAPE = 0x1b;
const ALTERNATE_SCREENS: ReadonlySet<number> = new Set([47, 1047, 1049]);
/** On in a new terminal: wrap at the edge, and a visible cursor. */
const ON_BY_DEFAULT: ReadonlySet<number> = new Set([7, 25]);

/**
 * Follows the modes that a program sets on the terminal: alternate screen, hidden cursor, mouse, bracketed paste, keypad. They are
 * switched off when this command leaves a program that still runs.
 */
export class ScreenModes {
  /** Modes that differ from those of a new terminal. */
  readonly #changed = new Set<number>();
  #keypad = false;
  #held = '';

  /** Whether the program uses the alternate screen. */
  get isAlternate(): boolean {
    return [...this.#changed].some((mode) => ALTERNATE_SCREENS.has(mode));
  }

  /** Reads the next output. A sequence may be split between two calls. */
  follow(bytes: Uint8Array): void {
    if (this.#held === '' && !bytes.includes(ESCAPE)) return;
    const text = this.#held + Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1');
    for (const [sequence, modes, end] of text.matchAll(SEQUENCES)) {
      if (modes === undefined) this.#keypad = sequence === '\x1b=';
      else for (const mode of modes.split(';')) this.#set(Number(mode), end === 'h');
    }
    const rest = text.lastIndexOf('\x1b');
    const isCut = rest !== -1 && UNFINISHED.test(text.slice(rest)) && text.length - rest < MAX_SEQUENCE_BYTES;
    this.#held = isCut ? text.slice(rest) : '';
  }

  /** The sequences that bring the terminal back to normal. Empty when it is. */
  reset(): string {
    const modes = [...this.#changed].map((mode) => `\x1b[?${mode}${ON_BY_DEFAULT.has(mode) ? 'h' : 'l'}`);
    const all = [...modes, this.#keypad ? '\x1b>' : ''].join('');
    this.#changed.clear();
    this.#keypad = false;
    return all === '' ? '' : `${all}\x1b[m`;
  }

  #set(mode: number, on: boolean): void {
    if (on === ON_BY_DEFAULT.has(mode)) this.#changed.delete(mode);
    else this.#changed.add(mode);
  }
}

/** DECSET and DECRST, and the two modes of the keypad. */
const SEQUENCES = /\x1b(?:\[\?(\d{1,5}(?:;\d{1,5}){0,9})([hl])|[=>])/g;
const UNFINISHED = /^\x1b(?:\[(?:\?[\d;]*)?)?$/;
