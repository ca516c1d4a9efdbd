import { FREED_CHUNK_MIN_BYTES } from './limits.ts';

/**
 * Frees the memory of a chunk that a socket has read, before the garbage collector does. Node allocates 64 KiB for each read of an accepted
 * socket. Their memory counts as external memory, which makes V8 mark the whole heap after every 25 MB. Small chunks are left to V8. The
 * chunk and all views of its memory have no bytes afterwards, so the caller must own it alone.
 */
export function freeChunk(chunk: Buffer): void {
  const { buffer } = chunk;
  // A view of a part may share its memory, for example with Node's pool of small buffers.
  if (chunk.length < FREED_CHUNK_MIN_BYTES || buffer.byteLength !== chunk.length) return;
  NOWHERE.postMessage(null, [buffer as ArrayBuffer]);
}

/** A closed port. It takes over the memory that is transferred to it, and has no receiver to keep it for. */
const NOWHERE = new MessageChannel().port1;
NOWHERE.close();
