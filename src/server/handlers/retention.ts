import { MAX_CHUNK_BYTES, OUTPUT_READ_BYTES } from '../../process/limits.ts';
import type { RetentionLimits } from '../../process/retained-stream.ts';
import { OUTPUT_EVENT_OVERHEAD_BYTES } from '../../protocol/limits.ts';
import type { ExecServerConfig } from '../config/config.ts';
import { HELD_OUTPUT_MIN_BYTES } from '../limits.ts';
import { readableChunkBytes } from './read-result.ts';

/** How much of each output stream is kept for reading. The head and the tail of a stream together stay within a requested cap. */
export function retentionOf(config: ExecServerConfig, outputBytesCap: number | null = null): RetentionLimits {
  const cap = outputBytesCap ?? Number.POSITIVE_INFINITY;
  const headBytes = Math.min(config.snapshotHeadBytes, Math.floor(cap / 2));
  return {
    headBytes,
    tailBytes: Math.min(config.retainedOutputBytesPerProcess, cap - headBytes),
    maxChunks: config.retainedChunksPerProcess,
    maxChunkBytes: readableChunkBytes(config.maxResponseBytes),
  };
}

/**
 * How much output of a process can be held for its client, as {@link OutputWindow} counts it, before reading must stop. One read more than
 * that is still retained. Null where that is too little.
 */
export function heldOutputBytes({ tailBytes, maxChunks, maxChunkBytes }: RetentionLimits): number | null {
  const chunkBytes = Math.min(maxChunkBytes ?? MAX_CHUNK_BYTES, MAX_CHUNK_BYTES);
  const chunksPerRead = Math.ceil(OUTPUT_READ_BYTES / chunkBytes);
  const heldChunks = maxChunks - chunksPerRead;
  const heldBytes = Math.min(tailBytes - OUTPUT_READ_BYTES, heldChunks * OUTPUT_EVENT_OVERHEAD_BYTES);
  return heldBytes < HELD_OUTPUT_MIN_BYTES ? null : heldBytes;
}
