import { MAX_FRAME_FIELDS } from '../limits.ts';

/**
 * Whether bytes can be a frame, and have few fields, those of the body included. A field takes two bytes and the decoder several
 * hundred nanoseconds: without this look a frame full of them would occupy a relay for as long as thousands of others. Known fields
 * must have their types, which the decoder does not check, so that both see the same fields.
 */
export function hasFrameFields(bytes: Uint8Array): boolean {
  return new FieldWalk(bytes).passes(0, bytes.length, FRAME);
}

/** Wire types: of numbers, of two sizes of fixed numbers, and of whatever has a length. */
const Wire = { number: 0, fixed64: 1, length: 2, fixed32: 5 } as const;

/** The fields of a message: their wire types, or what is in them. Unknown ones may be there, too. */
interface Fields {
  readonly [field: number]: number | Fields;
}

const FRAME: Fields = {
  1: Wire.number,
  2: Wire.length,
  3: Wire.number,
  4: Wire.number,
  5: { 1: Wire.number, 2: Wire.number, 3: Wire.number, 4: Wire.length },
  6: {},
  7: { 1: Wire.number },
  8: { 1: Wire.length },
  9: {},
  10: { 1: Wire.length },
  11: Wire.length,
  12: Wire.length,
};

/** Goes over the fields of a message without taking anything out of it. */
class FieldWalk {
  readonly #bytes: Uint8Array;
  #at = 0;
  #left = MAX_FRAME_FIELDS;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  passes(start: number, end: number, fields: Fields): boolean {
    this.#at = start;
    while (this.#at < end) {
      const tag = this.#number();
      // The decoder would cut off what is beyond 32 bits.
      if (this.#left-- === 0 || tag > 0xffff_ffff || !this.#skip(tag % 8, fields[Math.floor(tag / 8)]))
        return false;
    }
    return this.#at === end;
  }

  #skip(type: number, known: number | Fields | undefined): boolean {
    const wanted = typeof known === 'object' ? Wire.length : (known ?? type);
    if (type !== wanted) return false;
    switch (type) {
      case Wire.number:
        return this.#number() < Number.POSITIVE_INFINITY;
      case Wire.fixed64:
        this.#at += 8;
        return true;
      case Wire.fixed32:
        this.#at += 4;
        return true;
      case Wire.length: {
        const length = this.#number();
        const end = this.#at + length;
        if (typeof known === 'object' && end <= this.#bytes.length) return this.passes(this.#at, end, known);
        this.#at = end;
        return end <= this.#bytes.length;
      }
      default:
        return false;
    }
  }

  /** Infinite where there is none, or one of more than ten bytes. */
  #number(): number {
    let value = 0;
    for (let place = 1; place < MAX_PLACE; place *= 0x80) {
      const byte = this.#bytes[this.#at++];
      if (byte === undefined) break;
      value += (byte & 0x7f) * place;
      if (byte < 0x80) return value;
    }
    return Number.POSITIVE_INFINITY;
  }
}

const MAX_PLACE = 0x80 ** 10;
