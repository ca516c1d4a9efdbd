// Escape sequences of terminals, by the rules of ECMA-48 and of xterm (https://invisible-island.net/xterm/ctlseqs/ctlseqs.html).

const ESC = 0x1b;
const BEL = 0x07;
const CANCEL = 0x18;
const SUBSTITUTE = 0x1a;
const STRING_TERMINATOR = 0x9c;

/** A sequence in a text. `final` is the last character of a control sequence (CSI), with its parameters; empty for other sequences. */
interface EscapeSequence {
  /** The index behind the sequence. */
  readonly end: number;
  readonly final: string;
  readonly parameters: string;
}

/** Whether a character can begin a sequence: ESC, or a C1 control. */
export function startsSequence(code: number): boolean {
  return code === ESC || (code >= 0x80 && code <= 0x9f);
}

/** Parses the sequences of a text, from its beginning on. The time is linear, whatever the text contains. */
export class SequenceParser {
  readonly #text: string;
  /** Whether no string of a kind that begins after the last one has an end. */
  #isStringOpen = false;
  #isOscOpen = false;

  constructor(text: string) {
    this.#text = text;
  }

  /** Parses the sequence that begins at an index. Returns null when the text ends before the sequence does. */
  parse(start: number): EscapeSequence | null {
    const text = this.#text;
    const first = text.charCodeAt(start);
    if (first !== ESC) return this.#parseIntroduced(start + 1, first);
    if (start + 1 >= text.length) return null;
    const second = text.charCodeAt(start + 1);
    // ESC and a byte from @ to _ stand for the C1 control that is 0x40 higher.
    if (second >= 0x40 && second <= 0x5f) return this.#parseIntroduced(start + 2, second + 0x40);
    let end = start + 1;
    while (isBetween(text, end, 0x20, 0x2f)) end++;
    if (end >= text.length) return null;
    return plain(isBetween(text, end, 0x30, 0x7e) ? end + 1 : end);
  }

  #parseIntroduced(start: number, control: number): EscapeSequence | null {
    switch (control) {
      case 0x9b:
        return parseControlSequence(this.#text, start);
      case 0x9d:
        return this.#parseString(start, true);
      case 0x90: // DCS
      case 0x98: // SOS
      case 0x9e: // PM
      case 0x9f: // APC
        return this.#parseString(start, false);
      default:
        return plain(start);
    }
  }

  #parseString(start: number, isOsc: boolean): EscapeSequence | null {
    if (isOsc ? this.#isOscOpen : this.#isStringOpen) return null;
    const sequence = parseString(this.#text, start, isOsc);
    if (sequence !== null) return sequence;
    // What ends another string ends an OSC, too.
    this.#isStringOpen = true;
    this.#isOscOpen ||= isOsc;
    return null;
  }
}

/** The number of bytes at the end that begin a sequence without its end. */
export function unfinishedEscape(bytes: Uint8Array): number {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1');
  const parser = new SequenceParser(text);
  for (let index = text.indexOf('\x1b'); index !== -1; ) {
    const sequence = parser.parse(index);
    if (sequence === null) return text.length - index;
    index = text.indexOf('\x1b', Math.max(sequence.end, index + 1));
  }
  return 0;
}

function parseControlSequence(text: string, start: number): EscapeSequence | null {
  let end = start;
  while (isBetween(text, end, 0x30, 0x3f)) end++;
  const parameters = text.slice(start, end);
  while (isBetween(text, end, 0x20, 0x2f)) end++;
  if (end >= text.length) return null;
  if (isBetween(text, end, 0x40, 0x7e)) return { end: end + 1, final: text[end]!, parameters };
  // Any other character ends the sequence without an effect, and has its own.
  return plain(end);
}

/** Control strings end with ST; that of an OSC also with BEL, and with a line break, which it cannot contain. */
function parseString(text: string, start: number, isOsc: boolean): EscapeSequence | null {
  for (let index = start; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (code === STRING_TERMINATOR || code === CANCEL || code === SUBSTITUTE) return plain(index + 1);
    if (isOsc && code === BEL) return plain(index + 1);
    if (isOsc && (code === 0x0a || code === 0x0d)) return plain(index);
    if (code !== ESC) continue;
    if (index + 1 >= text.length) return null;
    return plain(text[index + 1] === '\\' ? index + 2 : index);
  }
  return null;
}

function plain(end: number): EscapeSequence {
  return { end, final: '', parameters: '' };
}

function isBetween(text: string, index: number, first: number, last: number): boolean {
  const code = text.charCodeAt(index);
  return code >= first && code <= last;
}
