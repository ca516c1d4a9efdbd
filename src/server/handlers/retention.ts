import { MAX_TEXT_CHUNK_BYTES, OUTPUT_READ_BYTES } from '../../process/limits.ts';
import type { RetentionLimits } from '../../process/retained-stream.ts';
import { OUTPUT_EVENT_OVERHEAD_BYTES } from '../../protocol/limits.ts';
import type { ExecServerConfig } from '../config/config.ts';
import { HELD_OUTPUT_MIN_BYTES } from '../limits.ts';
import { readableChunkBytes } from './read-result.ts';

/**
 * How much of each output stream is kept for reading. The head and the tail of a stream together stay within a requested cap.
 * `takesBytes` says whether the client gets output as bytes, for which larger chunks cost less.
 */
export function retentionOf(
  config: ExecServerConfig,
  outputBytesCap: number | null = null,
  takesBytes = false,
): RetentionLimits {
  const cap = outputBytesCap ?? Number.POSITIVE_INFINITY;
  const headBytes = Math.min(config.snapshotHeadBytes, Math.floor(cap / 2));
  return {
    headBytes,
    tailBytes: Math.min(config.retainedOutputBytesPerProcess, cap - headBytes),
    maxChunks: config.retainedChunksPerProcess,
    maxChunkBytes: Math.min(
      readableChunkBytes(config.maxResponseBytes),
      takesBytes ? OUTPUT_READ_BYTES : MAX_TEXT_CHUNK_BYTES,
    ),
  };
}

/**
 * How much output of a process can be held for its client, as {@link OutputWindow} counts it, before reading must stop. One read more than
 * that is still retained. Null where that is too little.
 */
export function heldOutputBytes({ tailBytes, maxChunks, maxChunkBytes }: RetentionLimits): number | null {
  const chunksPerRead = Math.ceil(OUTPUT_READ_BYTES / (maxChunkBytes ?? OUTPUT_READ_BYTES));
  const heldChunks = maxChunks - chunksPerRead;
  const heldBytes = Math.min(tailBytes - OUTPUT_READ_BYTES, heldChunks * OUTPUT_EVENT_OVERHEAD_BYTES);
  return heldBytes < HELD_OUTPUT_MIN_BYTES ? null : heldBytes;
}
