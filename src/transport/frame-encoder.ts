import { randomFillSync } from 'node:crypto';
import { FixedBufferPool } from './buffer-pool.ts';
import {
  MASKED_FRAME_MIN_POOLED_BYTES,
  MASKED_FRAME_POOL_SIZE,
  MASKED_FRAME_POOLED_BYTES,
} from './limits.ts';
import { unmask } from './unmask.ts';

/** The kind of a frame: a whole message or the first part of one, or a later part. */
export interface FrameKind {
  readonly isBinary: boolean;
  readonly isFirst: boolean;
  readonly isLast: boolean;
}

export const WHOLE_TEXT: FrameKind = { isBinary: false, isFirst: true, isLast: true };
export const WHOLE_BINARY: FrameKind = { isBinary: true, isFirst: true, isLast: true };

/**
 * Encodes messages as text frames, as a server sends them, into one buffer. Many small messages then cost one
 * allocation and one system call. {@link frameHeader} is for large messages, which are not copied.
 */
export function encodeTextFrames(messages: readonly (string | Uint8Array)[]): Buffer {
  const lengths = messages.map(byteLength);
  const total = lengths.reduce((sum, length) => sum + headerLength(length) + length, 0);
  const frames = Buffer.allocUnsafe(total);
  let at = 0;
  for (const [index, message] of messages.entries()) {
    at = writeHeader(frames, at, WHOLE_TEXT, lengths[index]!);
    at += write(frames, at, message);
  }
  return frames;
}

/** Returns the header of a frame that a server sends. */
export function frameHeader(length: number, kind: FrameKind): Buffer {
  const header = Buffer.allocUnsafe(headerLength(length));
  writeHeader(header, 0, kind, length);
  return header;
}

/** A frame in memory that may be reused after `release` was called. */
interface MaskedFrame {
  readonly bytes: Buffer;
  readonly release: () => void;
}

/**
 * Encodes a frame of one or more parts, as a client sends it: masked with a random key (RFC 6455, 5.3). The parts are copied. Masks four
 * bytes at a time; the websocket library masks one.
 */
export function encodeMaskedFrame(kind: FrameKind, parts: readonly (string | Uint8Array)[]): MaskedFrame {
  const length = parts.reduce((sum, part) => sum + byteLength(part), 0);
  const total = headerLength(length) + KEY_BYTES + length;
  const isPooled = total >= MASKED_FRAME_MIN_POOLED_BYTES;
  const memory = isPooled ? FRAMES.take(total) : Buffer.allocUnsafe(total);
  const keyAt = writeHeader(memory, 0, kind, length);
  memory[1]! |= MASK_BIT;
  const key = randomKey();
  memory.set(key, keyAt);
  let position = 0;
  for (const part of parts) {
    const at = keyAt + KEY_BYTES + position;
    if (typeof part === 'string') {
      const written = memory.write(part, at);
      unmask(memory.subarray(at, at + written), key, position);
      position += written;
    } else {
      position = copyMasked(part, memory, at, key, position);
    }
  }
  return { bytes: memory.subarray(0, total), release: () => FRAMES.give(memory) };
}

/** Copies and masks a little at a time, so that the bytes are still in the processor's cache. Returns the next position. */
function copyMasked(
  part: Uint8Array,
  memory: Buffer,
  start: number,
  key: Uint8Array,
  position: number,
): number {
  for (let from = 0; from < part.length; from += MASKED_STEP_BYTES) {
    const step = part.subarray(from, from + MASKED_STEP_BYTES);
    memory.set(step, start + from);
    unmask(memory.subarray(start + from, start + from + step.length), key, position + from);
  }
  return position + part.length;
}

const FRAMES = new FixedBufferPool(MASKED_FRAME_POOLED_BYTES, MASKED_FRAME_POOL_SIZE);
const MASKED_STEP_BYTES = 32 * 1024;

/** Random bytes that are not used yet. Drawing many at a time is cheaper. */
const RANDOM = Buffer.alloc(4096);
let randomAt = RANDOM.length;

function randomKey(): Uint8Array {
  if (randomAt === RANDOM.length) {
    randomFillSync(RANDOM);
    randomAt = 0;
  }
  const key = Uint8Array.prototype.slice.call(RANDOM, randomAt, randomAt + KEY_BYTES);
  randomAt += KEY_BYTES;
  return key;
}

const FINAL_BIT = 0x80;
const MASK_BIT = 0x80;
const KEY_BYTES = 4;
const CONTINUATION = 0;
const TEXT = 1;
const BINARY = 2;
const LENGTH_IN_2_BYTES = 126;
const LENGTH_IN_8_BYTES = 127;

function byteLength(message: string | Uint8Array): number {
  return typeof message === 'string' ? Buffer.byteLength(message) : message.length;
}

/** Returns how many bytes were written. */
function write(frames: Buffer, at: number, message: string | Uint8Array): number {
  if (typeof message === 'string') return frames.write(message, at);
  frames.set(message, at);
  return message.length;
}

/** The length of a header without a mask. */
function headerLength(length: number): number {
  if (length < LENGTH_IN_2_BYTES) return 2;
  return length < 65_536 ? 4 : 10;
}

/** Returns the position after the header. */
function writeHeader(
  frames: Buffer,
  at: number,
  { isBinary, isFirst, isLast }: FrameKind,
  length: number,
): number {
  const opcode = isFirst ? (isBinary ? BINARY : TEXT) : CONTINUATION;
  frames[at] = (isLast ? FINAL_BIT : 0) | opcode;
  if (length < LENGTH_IN_2_BYTES) {
    frames[at + 1] = length;
  } else if (length < 65_536) {
    frames[at + 1] = LENGTH_IN_2_BYTES;
    frames.writeUInt16BE(length, at + 2);
  } else {
    frames[at + 1] = LENGTH_IN_8_BYTES;
    frames.writeBigUInt64BE(BigInt(length), at + 2);
  }
  return at + headerLength(length);
}
