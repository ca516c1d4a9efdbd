import { base64Length, writeBase64 } from '../../rpc/base64.ts';
import { FixedBufferPool } from '../../transport/buffer-pool.ts';
import { FRAME_POOL_SIZE, POOLED_FRAME_BYTES, POOLED_FRAME_MIN_BYTES } from '../limits.ts';

/** Receives frames with bytes: a connection. */
export interface ChunkSink {
  /** `released` is called when the frame may be overwritten. */
  sendBulk(frame: Uint8Array, released?: () => void): void;
  /** Sends a copy of the bytes without encoding them, where the connection can; returns whether it can. */
  sendBulkBytes?(text: () => string, field: string, bytes: Uint8Array): boolean;
}

/**
 * Sends a notification whose last member is `chunk`. `prefix` and `varying` are its JSON up to the opening quote of the chunk. The
 * notification is built in one buffer: such messages are most of what a server sends, and building them as text takes six times as
 * long. The bytes may be overwritten after the call.
 */
export function sendChunk(sink: ChunkSink, prefix: Buffer, varying: string, bytes: Buffer): void {
  if (sendAsBytes(sink, prefix, varying, bytes)) return;
  const { frame, released } = encodeChunk(prefix, varying, bytes);
  sink.sendBulk(frame, released);
}

/** Sends the same notification to several connections, and encodes it once. */
export function broadcastChunk(
  sinks: Iterable<ChunkSink>,
  prefix: Buffer,
  varying: string,
  bytes: Buffer,
): void {
  let encoded: EncodedChunk | null = null;
  // The connections that still need the frame, and this function.
  let users = 1;
  const release = () => {
    if (--users === 0) encoded?.released?.();
  };
  for (const sink of sinks) {
    if (sendAsBytes(sink, prefix, varying, bytes)) continue;
    encoded ??= encodeChunk(prefix, varying, bytes);
    users++;
    sink.sendBulk(encoded.frame, release);
  }
  release();
}

function sendAsBytes(sink: ChunkSink, prefix: Buffer, varying: string, bytes: Buffer): boolean {
  return sink.sendBulkBytes?.(() => `${prefix}${varying}${AFTER_CHUNK}`, 'chunk', bytes) ?? false;
}

interface EncodedChunk {
  readonly frame: Uint8Array;
  /** Returns the frame to its pool; undefined when it has none. */
  readonly released: (() => void) | undefined;
}

function encodeChunk(prefix: Buffer, varying: string, bytes: Buffer): EncodedChunk {
  const length = prefix.length + varying.length + base64Length(bytes.length) + AFTER_CHUNK.length;
  const isPooled = length >= POOLED_FRAME_MIN_BYTES;
  const frame = isPooled ? FRAMES.take(length) : Buffer.allocUnsafe(length);
  writeChunk(frame, prefix, varying, bytes);
  return { frame: frame.subarray(0, length), released: isPooled ? () => FRAMES.give(frame) : undefined };
}

const AFTER_CHUNK = Buffer.from('"}}');

function writeChunk(frame: Buffer, prefix: Buffer, varying: string, bytes: Buffer): void {
  prefix.copy(frame);
  const start = prefix.length + frame.write(varying, prefix.length, 'latin1');
  writeBase64(frame, start, bytes, AFTER_CHUNK);
}

const FRAMES = new FixedBufferPool(POOLED_FRAME_BYTES, FRAME_POOL_SIZE);
