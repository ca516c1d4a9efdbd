/**
 * Cuts a byte stream into pieces that never split a character: an incomplete character waits for the rest. Invalid UTF-8 passes
 * unchanged. Pieces have at most `maxBytes` bytes, which is at least four.
 */
export class TextPieces {
  readonly #maxBytes: number;
  #waiting: Uint8Array = new Uint8Array(0);

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  push(bytes: Uint8Array): Uint8Array[] {
    const all = this.#waiting.length === 0 ? bytes : Buffer.concat([this.#waiting, bytes]);
    const pieces: Uint8Array[] = [];
    let from = 0;
    while (all.length - from > this.#maxBytes) {
      const part = all.subarray(from, from + this.#maxBytes);
      const piece = part.subarray(0, part.length - unfinishedBytes(part));
      pieces.push(piece);
      from += piece.length;
    }
    const rest = all.subarray(from);
    const whole = rest.length - unfinishedBytes(rest);
    if (whole > 0) pieces.push(rest.subarray(0, whole));
    this.#waiting = Uint8Array.from(rest.subarray(whole));
    return pieces;
  }

  /** Returns the incomplete rest at the end of the stream. */
  flush(): Uint8Array[] {
    const rest = this.#waiting;
    this.#waiting = new Uint8Array(0);
    return rest.length === 0 ? [] : [rest];
  }
}

/** Returns the number of bytes at the end, 0 to 3, that begin an incomplete character. */
function unfinishedBytes(bytes: Uint8Array): number {
  for (let count = 1; count <= 3 && count <= bytes.length; count++) {
    const byte = bytes[bytes.length - count]!;
    if (isContinuation(byte)) continue;
    return sequenceLength(byte) > count ? count : 0;
  }
  return 0;
}

export function isContinuation(byte: number): boolean {
  return (byte & 0b1100_0000) === 0b1000_0000;
}

/** Returns the length of the character that starts with a byte; 1 when none does. */
function sequenceLength(first: number): number {
  if (first >= 0xc2 && first <= 0xdf) return 2;
  if (first >= 0xe0 && first <= 0xef) return 3;
  if (first >= 0xf0 && first <= 0xf4) return 4;
  return 1;
}
