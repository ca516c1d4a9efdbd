import { printable } from '../../base/format.ts';

const MAX_LINE_LENGTH = 4000;
/** A longer escape sequence without an end is shown as text. */
const MAX_SEQUENCE_LENGTH = 4096;

/** Colours, titles, hyperlinks, character sets (ECMA-48, xterm's control sequences). */
const ESCAPE_SEQUENCE =
  /\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[ -/]+[0-~]|\x1b[@-Z\\-_]/g;
const INCOMPLETE_SEQUENCE = /\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]*\x1b?|[ -/]*)$/;

/** Decodes the output of one stream, and removes escape sequences. Carriage returns stay for {@link LineText}. */
export class OutputDecoder {
  readonly #decoder = new TextDecoder();
  /** The beginning of an escape sequence, whose end comes with the next output. */
  #incomplete = '';

  decode(bytes: Uint8Array): string {
    const text = this.#incomplete + this.#decoder.decode(bytes, { stream: true });
    const tail = INCOMPLETE_SEQUENCE.exec(text.slice(-MAX_SEQUENCE_LENGTH))?.[0] ?? '';
    this.#incomplete = tail;
    const plain = text.slice(0, text.length - tail.length).replaceAll(ESCAPE_SEQUENCE, '');
    return plain.split('\r').map(printable).join('\r');
  }

  /** The output before the next one is missing. */
  skip(): void {
    this.#incomplete = '';
  }
}

/** The text of one line while a program prints it. It keeps the first characters, and no memory for the others. */
export class LineText {
  #text = '';
  /** The next character starts the line again, as progress displays do. */
  #isReturned = false;

  get text(): string {
    return this.#text;
  }

  append(part: string): void {
    const end = endWithoutReturns(part);
    const start = part.lastIndexOf('\r', end - 1) + 1;
    if (end > start) {
      const before = start > 0 || this.#isReturned ? '' : this.#text;
      if (before.length <= MAX_LINE_LENGTH) this.#text = cut(before + part.slice(start, end));
      this.#isReturned = false;
    }
    if (end < part.length) this.#isReturned = true;
  }
}

/** The length of a text without the carriage returns at its end. */
function endWithoutReturns(text: string): number {
  let end = text.length;
  while (end > 0 && text[end - 1] === '\r') end--;
  return end;
}

function cut(line: string): string {
  const text = line.length > MAX_LINE_LENGTH ? `${line.slice(0, MAX_LINE_LENGTH)}…` : line;
  // A slice keeps the whole string in memory from which it was taken. This one is hardly longer than the line.
  return ` ${text}`.slice(1);
}
