import { base64Length, writeBase64 } from '../../rpc/base64.ts';
import { FixedBufferPool } from '../../transport/buffer-pool.ts';
import type { BytesMessage } from '../../transport/transport.ts';
import { FRAME_POOL_SIZE, POOLED_FRAME_BYTES, POOLED_FRAME_MIN_BYTES } from '../limits.ts';

/** Receives frames with bytes: a connection. */
export interface ChunkSink {
  /** `released` is called when the message may be overwritten. */
  sendBulk(message: Uint8Array | BytesMessage, released?: () => void): void;
  /** Whether so many bytes go in a binary message. Absent means no. */
  takesBytes?(length: number): boolean;
}

/**
 * Sends a notification whose last member is `chunk`. `prefix` and `varying` are its JSON up to the opening quote of the chunk. The
 * notification is built in one buffer: such messages are most of what a server sends, and building them as text takes six times as
 * long. The bytes may be overwritten after the call.
 */
export function sendChunk(sink: ChunkSink, prefix: Buffer, varying: string, bytes: Buffer): void {
  const encode = sink.takesBytes?.(bytes.length) ? binaryChunk : encodeChunk;
  const { message, released } = encode(prefix, varying, bytes);
  sink.sendBulk(message, released);
}

/** Sends the same notification to several connections, and encodes it once: as text, and as a binary message. */
export function broadcastChunk(
  sinks: Iterable<ChunkSink>,
  prefix: Buffer,
  varying: string,
  bytes: Buffer,
): void {
  const text = new SharedChunk(() => encodeChunk(prefix, varying, bytes));
  const binary = new SharedChunk(() => binaryChunk(prefix, varying, bytes));
  for (const sink of sinks) (sink.takesBytes?.(bytes.length) ? binary : text).send(sink);
  text.release();
  binary.release();
}

interface EncodedChunk {
  readonly message: Uint8Array | BytesMessage;
  /** Returns the memory to its pool; undefined when it has none. */
  readonly released: (() => void) | undefined;
}

/** A notification that is encoded when the first connection needs it, and released after the last one. */
class SharedChunk {
  readonly #encode: () => EncodedChunk;
  #encoded: EncodedChunk | null = null;
  /** The connections that still need it, and its creator. */
  #users = 1;

  constructor(encode: () => EncodedChunk) {
    this.#encode = encode;
  }

  send(sink: ChunkSink): void {
    this.#encoded ??= this.#encode();
    this.#users++;
    sink.sendBulk(this.#encoded.message, () => this.release());
  }

  release(): void {
    if (--this.#users === 0) this.#encoded?.released?.();
  }
}

function binaryChunk(prefix: Buffer, varying: string, bytes: Buffer): EncodedChunk {
  const isPooled = bytes.length >= POOLED_FRAME_MIN_BYTES;
  const copy = isPooled ? FRAMES.take(bytes.length) : Buffer.allocUnsafe(bytes.length);
  bytes.copy(copy);
  return {
    message: { text: `${prefix}${varying}${AFTER_CHUNK}`, bytes: copy.subarray(0, bytes.length) },
    released: isPooled ? () => FRAMES.give(copy) : undefined,
  };
}

function encodeChunk(prefix: Buffer, varying: string, bytes: Buffer): EncodedChunk {
  const length = prefix.length + varying.length + base64Length(bytes.length) + AFTER_CHUNK.length;
  const isPooled = length >= POOLED_FRAME_MIN_BYTES;
  const frame = isPooled ? FRAMES.take(length) : Buffer.allocUnsafe(length);
  writeChunk(frame, prefix, varying, bytes);
  return { message: frame.subarray(0, length), released: isPooled ? () => FRAMES.give(frame) : undefined };
}

const AFTER_CHUNK = Buffer.from('"}}');

function writeChunk(frame: Buffer, prefix: Buffer, varying: string, bytes: Buffer): void {
  prefix.copy(frame);
  const start = prefix.length + frame.write(varying, prefix.length, 'latin1');
  writeBase64(frame, start, bytes, AFTER_CHUNK);
}

const FRAMES = new FixedBufferPool(POOLED_FRAME_BYTES, FRAME_POOL_SIZE);
