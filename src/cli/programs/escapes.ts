/** What an escape asks for. */
type EscapeAction = 'detach' | 'help';

/** Input after the escapes were taken out. */
interface Unescaped {
  /** What the program gets. */
  readonly bytes: Uint8Array;
  /** Null without an escape. Bytes after `~.` are dropped. */
  readonly action: EscapeAction | null;
}

const TILDE = 0x7e;
const DOT = 0x2e;
const QUESTION_MARK = 0x3f;
const RETURN = 0x0d;
const NEWLINE = 0x0a;

/**
 * Finds the escapes of ssh in what a person types: `~.`, `~?` and `~~` at the start of a line. A tilde at the start of a line waits for
 * the next character.
 */
export class EscapeFilter {
  #state: 'lineStart' | 'tilde' | 'inLine' = 'lineStart';

  /** Takes the next input, in pieces of any size. Input that is ignored leaves the cursor where it is: at the start of a line. */
  filter(input: Uint8Array, isIgnored = false): Unescaped {
    const passed: number[] = [];
    let action: EscapeAction | null = null;
    for (const byte of input) {
      if (this.#state === 'lineStart' && byte === TILDE) {
        this.#state = 'tilde';
        continue;
      }
      if (this.#state === 'tilde') {
        if (byte === DOT) {
          this.#state = 'lineStart';
          return { bytes: Uint8Array.from(passed), action: 'detach' };
        }
        if (byte === QUESTION_MARK) {
          action = 'help';
          this.#state = 'lineStart';
          continue;
        }
        passed.push(TILDE);
        if (byte === TILDE) {
          this.#state = isIgnored ? 'lineStart' : 'inLine';
          continue;
        }
      }
      passed.push(byte);
      this.#state = isIgnored || byte === RETURN || byte === NEWLINE ? 'lineStart' : 'inLine';
    }
    return { bytes: Uint8Array.from(passed), action };
  }
}
