/** Shortest pause for a peer that sends too fast. Shorter pauses would cost more than they hold back. */
export const MIN_RECEIVE_PAUSE_MS = 5;

/** Requests of one connection that may wait for a slot. Beyond that the server stops reading from it. */
export const MAX_QUEUED_REQUESTS = 1024;

/** Parked requests of one connection. Further ones keep their slot. */
export const MAX_PARKED_REQUESTS = 1024;

/**
 * Requests of one connection that may be in progress without a slot: parked ones, control requests and the requests
 * they start first. Beyond that the server stops reading from it. Only a flooding client gets there.
 */
export const MAX_REQUESTS_BEYOND_SLOTS = 4096;

/** Malformed messages of a peer in a row, without a valid one between them. Then the connection is closed. */
export const MAX_MALFORMED_IN_A_ROW = 1024;

/** Calls that a peer may leave unanswered. */
export const MAX_PENDING_CALLS = 1024;

/** Bytes of responses that a peer may leave unread. Beyond that its requests are neither read nor started. */
export const UNSENT_RESPONSES_MAX_BYTES = 8 * 1024 * 1024;

/**
 * Bytes per read of a streamed response: a multiple of three, so that the base64 of the blocks can be joined. One
 * block becomes 256 KiB of text, which is the send window of a transport.
 */
export const STREAM_BLOCK_BYTES = 192 * 1024;

/** Buffers for read and for encoded blocks that are kept for the next stream. */
export const STREAM_POOLED_BUFFERS = 4;

/**
 * Bytes encoded to base64 per step: a multiple of three. The text has 64 KiB, half of what V8 allocates separately
 * from the young generation of the heap, at an eighth of the speed.
 */
export const BASE64_ENCODE_CHUNK_BYTES = 48 * 1024;

/** Results of at least this size are encoded into pooled buffers. */
export const POOLED_RESULT_MIN_BYTES = 256 * 1024;

/** Size of these buffers: 1 MiB in base64, which is the largest block of a file, plus the JSON around it. */
export const POOLED_RESULT_BYTES = 1368 * 1024;

/** Number of pooled buffers: as many as a client that reads ahead has in progress. */
export const POOLED_RESULTS_MAX = 4;

/**
 * Bytes of a member from which on it is sent in a binary message. A shorter one is cheap in base64, and messages of text that are sent
 * in one turn share a system call.
 */
export const BINARY_MIN_BYTES = 4 * 1024;

/**
 * Bytes of a request besides its base64 parameter. Reading this much JSON blocks the event loop for some dozens of
 * milliseconds. The largest real requests start programs: arguments and variables have two megabytes in all (ARG_MAX).
 */
export const MAX_REQUEST_TEXT_BYTES = 4 * 1024 * 1024;

/** Memory for the text of a large message at first. Few have more besides their base64. */
export const EXPECTED_TEXT_BYTES = 32 * 1024;

/** Base64 characters decoded per step: a multiple of four, and a text of the same size. */
export const BASE64_DECODE_CHUNK_CHARACTERS = 64 * 1024;

/** Characters of a large result that are encoded in one turn of the event loop: a few milliseconds. */
export const ENCODED_BYTES_PER_TURN = 512 * 1024;
