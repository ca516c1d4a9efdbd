/** How long a client may take to send its request headers. */
export const HEADERS_TIMEOUT_MS = 10_000;

/** How long requests may run on once the client sends nothing more. A write to a program that does not read never ends. */
export const FINISH_TIMEOUT_MS = 1_000;

/** Frames from this size on are built in buffers that are used again; smaller ones come from Node's own pool. */
export const REUSED_FRAME_MIN_BYTES = 32 * 1024;

/** Size of these buffers: a full read of output in base64, and the words around it unless the process id is very long. */
export const REUSED_FRAME_BYTES = 88 * 1024;

/** Such buffers that are kept: what one busy connection has under way. */
export const REUSED_FRAMES_MAX = 16;

/**
 * Files up to this size are answered in one piece, larger ones are read while they are sent. A multiple of three, so that the
 * base64 texts of what was read first and of the rest join.
 */
export const INLINE_READ_BYTES = 1536 * 1024;

/**
 * File operations of one connection that are with the system at once: half of the threads the server has for them, so that a
 * connection whose operations all hang on a dead mount leaves the others theirs.
 */
export const FILE_OPERATIONS_PER_CONNECTION = 8;

/** How long a start waits for file changes that were asked for before it. Longer than any of them takes, unless it hangs. */
export const CHANGES_BEFORE_START_MS = 2_000;

/** Buffers for blocks of files that are kept: what a client that asks ahead has under way. */
export const REUSED_BLOCKS_MAX = 4;
