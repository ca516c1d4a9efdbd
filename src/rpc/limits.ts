/** Shortest pause of the intake for a peer that sends too fast; shorter ones would cost more than they hold back. */
export const MIN_RECEIVE_PAUSE_MS = 5;

/** Requests of one connection that may wait for a slot; beyond it the intake pauses. */
export const MAX_QUEUED_REQUESTS = 1024;

/** Requests of one connection that may wait without holding a slot; further ones keep theirs. */
export const MAX_PARKED_REQUESTS = 1024;

/**
 * Requests of one connection that may be under way without a slot of their own: parked ones, control requests and what those pull
 * along. Beyond it the intake pauses. Only a client that floods gets there.
 */
export const MAX_REQUESTS_BEYOND_SLOTS = 4096;

/** Requests of ours that a peer may leave unanswered. */
export const MAX_PENDING_CALLS = 1024;

/** Bytes of answers that a peer may leave unread before no further requests of it are read or started. */
export const UNSENT_RESPONSES_MAX_BYTES = 8 * 1024 * 1024;

/**
 * Bytes read at a time for an answer that is streamed; a multiple of three, so that the base64 texts of the blocks join. One block
 * is a quarter of a megabyte of text: as much as a transport takes at once.
 */
export const STREAM_BLOCK_BYTES = 192 * 1024;

/** Buffers for encoded blocks that are kept for the next stream. */
export const STREAM_POOLED_BUFFERS = 4;

/**
 * Bytes whose base64 text is made at a time: a multiple of three, small enough for the young generation of the heap, and for the text
 * to be copied while the processor still has it.
 */
export const BASE64_ENCODE_CHUNK_BYTES = 12 * 1024;

/** Answers from this size on are built in buffers that are used again. */
export const POOLED_RESULT_MIN_BYTES = 256 * 1024;

/** Size of these buffers: a megabyte in base64, which is the largest block of a file, and the words around it. */
export const POOLED_RESULT_BYTES = 1368 * 1024;

/** Such buffers that are kept: what a client that asks ahead has under way. */
export const POOLED_RESULTS_MAX = 4;

/** So far into a large message a parameter in base64 is looked for: behind a path, each byte of which may take three in a URI. */
export const BULK_SEARCH_BYTES = 32 * 1024;

/** Base64 characters that are decoded at a time: a multiple of four, and strings of this size are cheap. */
export const BASE64_DECODE_CHUNK_CHARACTERS = 64 * 1024;
