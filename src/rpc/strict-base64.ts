/** What a base64 text stands for, or what is wrong with it. */
export type Decoded = Buffer | { readonly problem: string };

/**
 * The bytes of a standard base64 text with padding, or what is wrong with it. Node's decoder skips what it does not know; each
 * character it skipped makes the result too short, so that a good text costs no second look. Of characters outside ASCII it may take
 * the low byte for one that it knows.
 */
export function decodeBase64(text: string): Decoded {
  const bytes = Buffer.from(text, 'base64');
  const isAscii = Buffer.byteLength(text) === text.length;
  return isAscii && isStrict(text, paddingOf(text), bytes.length) ? bytes : { problem: problemOf(text) };
}

/** Looks for what is wrong with a base64 text in the pieces in which it comes, so that none of them is looked at twice. */
export class Base64Fault {
  #length: number;
  /** The first symbol that base64 does not have. */
  #foreign: { readonly code: number; readonly offset: number } | null = null;
  #firstPadding = Number.POSITIVE_INFINITY;
  /** As much of the end as its fault can lie in. */
  #end = '';

  /** Before the text there are so many characters of it without fault or padding, in whole groups of four. */
  constructor(goodCharacters: number) {
    this.#length = goodCharacters;
  }

  add(piece: string): void {
    if (this.#foreign === null) {
      const at = piece.search(/[^A-Za-z0-9+/=]/);
      if (at >= 0) this.#foreign = { code: piece.codePointAt(at)!, offset: this.#length + at };
    }
    if (this.#firstPadding === Number.POSITIVE_INFINITY) {
      const at = piece.indexOf('=');
      if (at >= 0) this.#firstPadding = this.#length + at;
    }
    this.#length += piece.length;
    this.#end = `${this.#end}${piece.slice(-END_CHARACTERS)}`.slice(-END_CHARACTERS);
  }

  /** What is wrong with a text that something is wrong with, now that all of it has come. */
  get problem(): string {
    if (this.#foreign !== null) return invalidSymbol(this.#foreign.code, this.#foreign.offset);
    const padding = paddingOf(this.#end);
    const symbols = this.#length - padding;
    if (this.#firstPadding < symbols) return invalidSymbol(PADDING_CODE, this.#firstPadding);
    if (this.#length % 4 !== 0) return 'Invalid padding';
    const last = this.#end.charCodeAt(this.#end.length - padding - 1);
    return `Invalid last symbol ${last}, offset ${symbols - 1}.`;
  }
}

/** Whether an ASCII text with so much padding, from which Node decoded so many bytes, is one that strict decoders take. */
export function isStrict(text: string, padding: number, bytes: number): boolean {
  const complete = text.length % 4 === 0 && bytes === (text.length / 4) * 3 - padding;
  return complete && !text.includes('-') && !text.includes('_') && !hasStrayBits(text, padding);
}

/** The last symbol and two of padding. */
const END_CHARACTERS = 3;
const PADDING_CODE = 0x3d;
const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

function paddingOf(text: string): number {
  return text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0;
}

function hasStrayBits(text: string, padding: number): boolean {
  if (padding === 0) return false;
  const last = ALPHABET.indexOf(text.charAt(text.length - padding - 1));
  return (last & (padding === 2 ? 0b1111 : 0b11)) !== 0;
}

function problemOf(text: string): string {
  const fault = new Base64Fault(0);
  fault.add(text);
  return fault.problem;
}

function invalidSymbol(code: number, offset: number): string {
  return `Invalid symbol ${code}, offset ${offset}.`;
}
