import koffi, { type LibraryHandle } from 'koffi';

/** Makes base64 out of bytes and bytes out of base64, from memory to memory. */
export interface Base64Coder {
  /** Writes the base64 of `bytes` to the beginning of `into`, which has room for it; returns its length. */
  encode(bytes: Uint8Array, into: Buffer): number;
  /**
   * Writes what `text` stands for to the beginning of `into`, which has room for it, and returns its length; null when it is not
   * base64. Whitespace may be skipped, and padding be taken or not.
   */
  decode(text: Uint8Array, into: Buffer): number | null;
}

/**
 * The functions with which Node makes base64 out of bytes, and back, in strings: without these nothing has to be copied and no string is
 * left to the garbage collector. Their names contain the types of what they take, so that a Node in which these are others does not
 * have them; then this is null.
 */
export function loadBase64(): Base64Coder | null {
  try {
    return bind(koffi.load(null));
  } catch {
    return null;
  }
}

function bind(node: LibraryHandle): Base64Coder {
  const result = koffi.struct({ error: 'int', count: 'size_t' });
  const toBase64 = node.func(TO_BASE64, 'size_t', ['const void *', 'size_t', 'void *', 'uint64_t']);
  const fromBase64 = node.func(FROM_BASE64, result, [
    ...['const void *', 'size_t', 'void *', 'uint64_t', 'uint64_t'],
  ]);
  return {
    encode: (bytes, into) => toBase64(bytes, bytes.length, into, STANDARD),
    decode: (text, into) => {
      const { error, count } = fromBase64(text, text.length, into, STANDARD, STRICT);
      return error === 0 ? count : null;
    },
  };
}

/** `binary_to_base64(const char *, size_t, char *, base64_options)`, and back, as the C++ library `simdutf` has them. */
const TO_BASE64 = '_ZN7simdutf16binary_to_base64EPKcmPcNS_14base64_optionsE';
const FROM_BASE64 =
  '_ZN7simdutf16base64_to_binaryEPKcmPcNS_14base64_optionsENS_27last_chunk_handling_optionsE';

/** The alphabet with + and /, and padding. */
const STANDARD = 0;
/** Padding is needed, and nothing may be left over. Whitespace is skipped all the same. */
const STRICT = 1;
