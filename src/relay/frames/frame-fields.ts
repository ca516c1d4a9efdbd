import { MAX_FRAME_FIELDS } from '../limits.ts';

/**
 * Whether the bytes can be a frame with few fields, including those of the body. A field takes two bytes, but several hundred
 * nanoseconds to decode. Without this check a frame full of fields would cost as much time as thousands of normal frames. Known fields
 * must have their wire types, which the decoder does not check: both must see the same fields.
 */
export function hasFrameFields(bytes: Uint8Array): boolean {
  return new FieldWalk(bytes).passes(0, bytes.length, FRAME);
}

/** Protobuf wire types: varint, fixed 64 bits, length-delimited, fixed 32 bits. */
const Wire = { varint: 0, fixed64: 1, length: 2, fixed32: 5 } as const;

/** The known fields of a message: their wire types, or the fields of a nested message. Unknown fields are allowed. */
interface Fields {
  readonly [field: number]: number | Fields;
}

const FRAME: Fields = {
  1: Wire.varint,
  2: Wire.length,
  3: Wire.varint,
  4: Wire.varint,
  5: { 1: Wire.varint, 2: Wire.varint, 3: Wire.varint, 4: Wire.length },
  6: {},
  7: { 1: Wire.varint },
  8: { 1: Wire.length },
  9: {},
  10: { 1: Wire.length },
  11: Wire.length,
  12: Wire.length,
};

/** Walks over the fields of a message without decoding them. */
class FieldWalk {
  readonly #bytes: Uint8Array;
  #offset = 0;
  #left = MAX_FRAME_FIELDS;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  passes(start: number, end: number, fields: Fields): boolean {
    this.#offset = start;
    while (this.#offset < end) {
      const tag = this.#varint();
      // The decoder truncates a tag to 32 bits.
      if (this.#left-- === 0 || tag > 0xffff_ffff || !this.#skip(tag % 8, fields[Math.floor(tag / 8)]))
        return false;
    }
    return this.#offset === end;
  }

  #skip(type: number, known: number | Fields | undefined): boolean {
    const wanted = typeof known === 'object' ? Wire.length : (known ?? type);
    if (type !== wanted) return false;
    switch (type) {
      case Wire.varint:
        return this.#varint() < Number.POSITIVE_INFINITY;
      case Wire.fixed64:
        this.#offset += 8;
        return true;
      case Wire.fixed32:
        this.#offset += 4;
        return true;
      case Wire.length: {
        const length = this.#varint();
        const end = this.#offset + length;
        if (typeof known === 'object' && end <= this.#bytes.length)
          return this.passes(this.#offset, end, known);
        this.#offset = end;
        return end <= this.#bytes.length;
      }
      default:
        return false;
    }
  }

  /** Reads a varint. Returns Infinity when it is incomplete or longer than ten bytes. */
  #varint(): number {
    let value = 0;
    for (let factor = 1; factor < MAX_FACTOR; factor *= 0x80) {
      const byte = this.#bytes[this.#offset++];
      if (byte === undefined) break;
      value += (byte & 0x7f) * factor;
      if (byte < 0x80) return value;
    }
    return Number.POSITIVE_INFINITY;
  }
}

const MAX_FACTOR = 0x80 ** 10;
