import { parseSequence, startsSequence } from './escape-parser.ts';

/**
 * Returns the text that a terminal would show, line by line: without escape sequences and control characters, and with what carriage
 * returns, backspaces and erasures overwrite. Movements between lines are ignored.
 */
export function plainText(text: string): string {
  if (!CONTROLS.test(text)) return text;
  const lines: string[] = [];
  let line = new Line();
  for (let index = 0; index < text.length; ) {
    const run = endOfRun(text, index);
    if (run > index) {
      line.write(text.slice(index, run));
      index = run;
      continue;
    }
    const code = text.charCodeAt(index);
    if (startsSequence(code)) {
      const sequence = parseSequence(text, index);
      // A string without an end would swallow all further text.
      if (sequence === null) {
        index += code === ESC ? 2 : 1;
        continue;
      }
      line.control(sequence.final, sequence.parameters);
      index = Math.max(sequence.end, index + 1);
      continue;
    }
    index++;
    if (code === LINE_FEED) {
      lines.push(line.text());
      line = new Line();
    } else if (code === CARRIAGE_RETURN) line.carriageReturn();
    else if (code === BACKSPACE) line.moveBy(-1);
  }
  lines.push(line.text());
  return lines.join('\n');
}

const ESC = 0x1b;
const BACKSPACE = 0x08;
const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;

/** Control characters except tab and line feed. */
const CONTROLS = /[\x00-\x08\x0b-\x1f\x7f-\x9f]/;

/** Farthest column that a sequence can move to. */
const MAX_COLUMN = 1_000;

/** The index of the first control character; a tab is none. */
function endOfRun(text: string, start: number): number {
  for (let index = start; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if ((code < 0x20 && code !== 0x09) || (code >= 0x7f && code <= 0x9f)) return index;
  }
  return text.length;
}

/** One line of a terminal without a right margin. A column is a character. */
class Line {
  /** The text while it was only appended to; afterwards the characters, and the column of the next one. */
  #text = '';
  #cells: string[] | null = null;
  #column = 0;
  /** A carriage return before a line break has no effect. */
  #returns = false;

  write(run: string): void {
    if (this.#returns) this.#edit();
    if (this.#cells === null) {
      this.#text += run;
      return;
    }
    for (const character of run) {
      while (this.#cells.length < this.#column) this.#cells.push(' ');
      this.#cells[this.#column++] = character;
    }
  }

  carriageReturn(): void {
    this.#returns = this.#text !== '' || this.#cells !== null;
  }

  moveBy(columns: number): void {
    this.#edit();
    this.#moveTo(this.#column + columns);
  }

  /** Applies a control sequence that acts within a line. */
  control(final: string, parameters: string): void {
    const amount = Number(/^\d{1,9}$/.test(parameters) ? parameters : 0);
    if (final === 'C') this.moveBy(amount || 1);
    else if (final === 'D') this.moveBy(-(amount || 1));
    else if (final === 'G') this.#moveTo((amount || 1) - 1);
    else if (final === 'K') this.#erase(amount);
  }

  text(): string {
    return this.#cells === null ? this.#text : this.#cells.join('').replace(/ +$/, '');
  }

  #moveTo(column: number): void {
    const cells = this.#edit();
    this.#column = Math.min(Math.max(0, column), Math.max(MAX_COLUMN, cells.length));
  }

  #erase(mode: number): void {
    const cells = this.#edit();
    if (mode === 0) cells.splice(this.#column);
    else if (mode === 1) cells.fill(' ', 0, this.#column + 1);
    else if (mode === 2) cells.fill(' ');
  }

  /** The characters, for changes. The column is that of the next one. */
  #edit(): string[] {
    if (this.#cells === null) {
      this.#cells = [...this.#text];
      this.#column = this.#cells.length;
    }
    if (this.#returns) this.#column = 0;
    this.#returns = false;
    return this.#cells;
  }
}
