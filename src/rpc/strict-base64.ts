import { asBuffer } from '../base/as-buffer.ts';
import { base64Padding, decodeBase64 } from '../base/base64.ts';

/** The bytes of a base64 text, or its fault. */
export type Decoded = Buffer | { readonly problem: string };

/** Decodes standard base64 with padding, or reports what is wrong with the text. */
export function decodeStrictBase64(text: string): Decoded {
  const bytes = decodeBase64(text);
  return bytes === null ? { problem: problemOf(text) } : asBuffer(bytes);
}

/** Finds the fault of a base64 text in chunks, so that no chunk is scanned twice. */
export class Base64Fault {
  #length: number;
  /** The first character that is not in the base64 alphabet. */
  #foreign: { readonly code: number; readonly offset: number } | null = null;
  #firstPadding = Number.POSITIVE_INFINITY;
  /** The last characters of the text, as many as a fault at the end can span. */
  #end = '';

  /** `goodCharacters` is the number of preceding characters without fault or padding, in whole groups of four. */
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

  /** Describes the fault. Call it after the whole text of an invalid base64 was added. */
  get problem(): string {
    if (this.#foreign !== null) return invalidSymbol(this.#foreign.code, this.#foreign.offset);
    const padding = base64Padding(this.#end);
    const symbols = this.#length - padding;
    if (this.#firstPadding < symbols) return invalidSymbol(PADDING_CODE, this.#firstPadding);
    if (this.#length % 4 !== 0) return 'Invalid padding';
    const last = this.#end.charCodeAt(this.#end.length - padding - 1);
    return `Invalid last symbol ${last}, offset ${symbols - 1}.`;
  }
}

/** The last character and two of padding. */
const END_CHARACTERS = 3;
const PADDING_CODE = 0x3d;

function problemOf(text: string): string {
  const fault = new Base64Fault(0);
  fault.add(text);
  return fault.problem;
}

function invalidSymbol(code: number, offset: number): string {
  return `Invalid symbol ${code}, offset ${offset}.`;
}
