import { LARGE_READ_BYTES, SHARED_READ_BYTES } from './limits.ts';

/**
 * Returns the buffer into which all sockets read; its content is consumed before the next read. After the first
 * large message it is part of a larger buffer. That lies in WebAssembly memory where possible, so that a small
 * WebAssembly function can unmask sixteen bytes at a time.
 */
export function readBuffer(expectsLarge: boolean): Buffer {
  if (expectsLarge && large === null) {
    large = vectorBuffer() ?? Buffer.allocUnsafeSlow(LARGE_READ_BYTES);
    usual = large.subarray(0, SHARED_READ_BYTES);
  }
  return expectsLarge ? large! : usual;
}

/**
 * Unmasks `piece` with `word` in steps of sixteen bytes and returns how many bytes were unmasked. Returns 0 for
 * bytes outside the WebAssembly memory.
 */
export function unmaskVectors(piece: Uint8Array, word: number): number {
  if (vectors === null || piece.buffer !== vectors.memory.buffer) return 0;
  const count = piece.length - (piece.length % VECTOR_BYTES);
  if (count > 0) vectors.unmask(piece.byteOffset, piece.byteOffset + count, word);
  return count;
}

/** The part of the WebAssembly interface that this file uses. Node's types lack it. */
interface WebAssemblyApi {
  readonly Module: new (bytes: Uint8Array) => object;
  readonly Instance: new (module: object) => { readonly exports: Vectors };
}

interface Vectors {
  readonly memory: { readonly buffer: ArrayBuffer };
  readonly unmask: (from: number, to: number, word: number) => void;
}

let usual: Buffer = Buffer.allocUnsafeSlow(SHARED_READ_BYTES);
let large: Buffer | null = null;
let vectors: Vectors | null = null;

/**
 * Returns null when WebAssembly memory cannot be allocated: V8 reserves gigabytes of address space for it, which a
 * limit may forbid.
 */
function vectorBuffer(): Buffer | null {
  try {
    const { Instance, Module } = (globalThis as unknown as { WebAssembly: WebAssemblyApi }).WebAssembly;
    vectors = new Instance(new Module(UNMASK_MODULE)).exports;
    return Buffer.from(vectors.memory.buffer);
  } catch {
    return null;
  }
}

const VECTOR_BYTES = 16;
const PAGES = LARGE_READ_BYTES / 65_536;

const ascii = (text: string) => [text.length, ...Buffer.from(text)];
const section = (id: number, bytes: readonly number[]) => [id, bytes.length, ...bytes];

const UNMASK_BODY = [
  // One local vector: the word four times. local.get 2; i32x4.splat; local.set 3
  ...[0x01, 0x01, 0x7b, 0x20, 2, 0xfd, 0x11, 0x21, 3],
  // loop; local.get 0
  ...[0x03, 0x40, 0x20, 0],
  // local.get 0; v128.load; local.get 3; v128.xor; v128.store
  ...[0x20, 0, 0xfd, 0x00, 0, 0, 0x20, 3, 0xfd, 0x51, 0xfd, 0x0b, 0, 0],
  // local.get 0; i32.const 16; i32.add; local.tee 0; local.get 1; i32.lt_u; br_if 0
  ...[0x20, 0, 0x41, VECTOR_BYTES, 0x6a, 0x22, 0, 0x20, 1, 0x49, 0x0d, 0],
  // end of the loop, and of the function
  ...[0x0b, 0x0b],
];

/**
 * Exports `memory` and `unmask(from, to, word)`, which unmasks from `from` to `to` in steps of sixteen bytes, at
 * least one.
 */
const UNMASK_MODULE = Uint8Array.from([
  ...[0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00],
  // One function type with three numbers and no result; one function of this type; memory of fixed size.
  ...section(1, [1, 0x60, 3, 0x7f, 0x7f, 0x7f, 0]),
  ...section(3, [1, 0]),
  ...section(5, [1, 1, PAGES, PAGES]),
  ...section(7, [2, ...ascii('memory'), 2, 0, ...ascii('unmask'), 0, 0]),
  ...section(10, [1, UNMASK_BODY.length, ...UNMASK_BODY]),
]);
