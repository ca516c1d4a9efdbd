import { SequenceParser, startsSequence } from './escape-parser.ts';

/**
 * Returns the text that a terminal would show, line by line: without escape sequences and control characters, and with what carriage
 * returns, backspaces and erasures overwrite. Movements between lines are ignored. The time is linear in the length of the text.
 */
export function plainText(text: string): string {
  if (!CONTROLS.test(text)) return text;
  const parser = new SequenceParser(text);
  const padding = { left: MIN_PADDING + text.length };
  const lines: string[] = [];
  let line = new Line(padding);
  for (let index = 0; index < text.length; ) {
    const run = endOfRun(text, index);
    if (run > index) {
      line.write(text.slice(index, run));
      index = run;
      continue;
    }
    const code = text.charCodeAt(index);
    if (startsSequence(code)) {
      const sequence = parser.parse(index);
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
      line = new Line(padding);
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

/** Columns that movements can fill in a text in any case. */
const MIN_PADDING = 64 * 1024;

/** The index of the first control character; a tab is none. */
function endOfRun(text: string, start: number): number {
  for (let index = start; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if ((code < 0x20 && code !== 0x09) || (code >= 0x7f && code <= 0x9f)) return index;
  }
  return text.length;
}

/** Columns that movements behind the end of lines may still fill in a text, so that a short text cannot become a huge one. */
interface Padding {
  left: number;
}

/** One line of a terminal without a right margin. A column is a character. */
class Line {
  /** The text while it was only appended to; afterwards the characters, and the column of the next one. */
  #text = '';
  #cells: string[] | null = null;
  #column = 0;
  /** How many erasures from the left had happened when each character was written. They take effect in {@link text}. */
  #ages: number[] = [];
  #erasures = 0;
  /** The erasures that matter: a later one reaches less far than those before it. */
  readonly #erased: { readonly column: number; readonly age: number }[] = [];
  /** A carriage return before a line break has no effect. */
  #returns = false;
  readonly #padding: Padding;

  constructor(padding: Padding) {
    this.#padding = padding;
  }

  write(run: string): void {
    if (this.#returns) this.#edit();
    if (this.#cells === null) {
      this.#text += run;
      return;
    }
    for (const character of run) {
      this.#pad(this.#cells);
      this.#ages[this.#column] = this.#erasures;
      this.#cells[this.#column++] = character;
    }
  }

  /** Fills the columns between the end and the column of the next character. */
  #pad(cells: string[]): void {
    this.#column = Math.min(this.#column, cells.length + this.#padding.left);
    this.#padding.left -= Math.max(0, this.#column - cells.length);
    while (cells.length < this.#column) {
      this.#ages[cells.length] = this.#erasures;
      cells.push(' ');
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
    if (this.#cells === null) return this.#text;
    const cells = this.#shown(this.#cells);
    let end = cells.length;
    while (end > 0 && cells[end - 1] === ' ') end--;
    return cells.slice(0, end).join('');
  }

  /** The characters without those that were erased. */
  #shown(cells: readonly string[]): readonly string[] {
    let at = this.#erased.length - 1;
    return cells.map((character, column) => {
      while (at >= 0 && this.#erased[at]!.column < column) at--;
      return at >= 0 && (this.#ages[column] ?? 0) < this.#erased[at]!.age ? ' ' : character;
    });
  }

  #moveTo(column: number): void {
    const cells = this.#edit();
    this.#column = Math.min(Math.max(0, column), Math.max(MAX_COLUMN, cells.length));
  }

  #erase(mode: number): void {
    const cells = this.#edit();
    if (mode === 0) cells.splice(this.#column);
    else if (mode === 1) this.#eraseTo(this.#column);
    else if (mode === 2) this.#eraseTo(Number.POSITIVE_INFINITY);
  }

  #eraseTo(column: number): void {
    while (this.#erased.length > 0 && this.#erased.at(-1)!.column <= column) this.#erased.pop();
    this.#erased.push({ column, age: ++this.#erasures });
  }

  /** The characters, for changes. The column is that of the next one. */
  #edit(): string[] {
    if (this.#cells === null) {
      this.#cells = [...this.#text];
      this.#ages = this.#cells.map(() => 0);
      this.#column = this.#cells.length;
    }
    if (this.#returns) this.#column = 0;
    this.#returns = false;
    return this.#cells;
  }
}
