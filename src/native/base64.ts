import koffi, { type LibraryHandle } from 'koffi';

/** Encodes and decodes base64 from buffer to buffer. */
export interface Base64Coder {
  /** Writes the base64 of `bytes` to the start of `into`, which must be large enough. Returns the length. */
  encode(bytes: Uint8Array, into: Buffer): number;
  /**
   * Decodes `text` to the start of `into`, which must be large enough. Returns the length; null when it is not base64. Whitespace
   * may be skipped, and padding may be optional.
   */
  decode(text: Uint8Array, into: Buffer): number | null;
}

/**
 * Binds the functions with which Node itself encodes and decodes base64. Calling them directly avoids a copy and a string for the
 * garbage collector. The symbols contain the parameter types, so a Node with other types does not export them; then the result is
 * null.
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

/**
 * `binary_to_base64(const char *, size_t, char *, base64_options)` and `base64_to_binary`, as exported by the C++ library
 * `simdutf`.
 */
const TO_BASE64 = '_ZN7simdutf16binary_to_base64EPKcmPcNS_14base64_optionsE';
const FROM_BASE64 =
  '_ZN7simdutf16base64_to_binaryEPKcmPcNS_14base64_optionsENS_27last_chunk_handling_optionsE';

/** The alphabet with + and /, with padding. */
const STANDARD = 0;
/** Padding is required, and no bits may be left over. Whitespace is still skipped. */
const STRICT = 1;
