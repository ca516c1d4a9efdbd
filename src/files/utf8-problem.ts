import { isUtf8 } from 'node:buffer';

/** Where and why bytes are not UTF-8, in the reference's wording; null when they are. */
export function utf8Problem(bytes: Uint8Array): string | null {
  if (isUtf8(bytes)) return null;
  let index = 0;
  for (;;) {
    const sequence = sequenceAt(bytes, index);
    if (sequence.state === 'incomplete') return `incomplete utf-8 byte sequence from index ${index}`;
    if (sequence.state === 'invalid') {
      return `invalid utf-8 sequence of ${sequence.length} bytes from index ${index}`;
    }
    index += sequence.length;
  }
}

/** An invalid sequence ends before the first byte that cannot belong to it; an incomplete one ends with the text. */
interface Sequence {
  readonly state: 'valid' | 'invalid' | 'incomplete';
  readonly length: number;
}

function sequenceAt(bytes: Uint8Array, start: number): Sequence {
  const first = bytes[start]!;
  if (first < 0x80) return { state: 'valid', length: 1 };
  if (first < 0xc2 || first > 0xf4) return { state: 'invalid', length: 1 };
  const length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  for (let offset = 1; offset < length; offset++) {
    const next = bytes[start + offset];
    if (next === undefined) return { state: 'incomplete', length: offset };
    const [low, high] = offset === 1 ? secondByteRange(first) : CONTINUATION;
    if (next < low || next > high) return { state: 'invalid', length: offset };
  }
  return { state: 'valid', length };
}

const CONTINUATION = [0x80, 0xbf] as const;

/** The range is narrower where the result would be an overlong encoding, a surrogate or beyond Unicode. */
function secondByteRange(first: number): readonly [number, number] {
  if (first === 0xe0) return [0xa0, 0xbf];
  if (first === 0xed) return [0x80, 0x9f];
  if (first === 0xf0) return [0x90, 0xbf];
  if (first === 0xf4) return [0x80, 0x8f];
  return CONTINUATION;
}
