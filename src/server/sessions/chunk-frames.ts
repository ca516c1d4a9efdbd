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
  if (sink.sendBulkBytes?.(() => `${prefix}${varying}${AFTER_CHUNK}`, 'chunk', bytes)) return;
  const length = prefix.length + varying.length + base64Length(bytes.length) + AFTER_CHUNK.length;
  if (length < POOLED_FRAME_MIN_BYTES) {
    const frame = Buffer.allocUnsafe(length);
    writeChunk(frame, prefix, varying, bytes);
    sink.sendBulk(frame);
  } else {
    const frame = FRAMES.take(length);
    writeChunk(frame, prefix, varying, bytes);
    sink.sendBulk(frame.subarray(0, length), () => FRAMES.give(frame));
  }
}

const AFTER_CHUNK = Buffer.from('"}}');

function writeChunk(frame: Buffer, prefix: Buffer, varying: string, bytes: Buffer): void {
  prefix.copy(frame);
  const start = prefix.length + frame.write(varying, prefix.length, 'latin1');
  writeBase64(frame, start, bytes, AFTER_CHUNK);
}

const FRAMES = new FixedBufferPool(POOLED_FRAME_BYTES, FRAME_POOL_SIZE);
