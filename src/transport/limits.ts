/**
 * Bytes a transport passes to the system before it asks for a pause. Small, because a control message sent now waits behind
 * them; large enough to keep a loopback connection busy between two turns of the event loop.
 */
export const SEND_WINDOW_BYTES = 256 * 1024;

/** Unsent bytes beyond which pings go unanswered, so that a peer that pings without reading does not fill the memory with pongs. */
export const PONG_WINDOW_BYTES = 4 * SEND_WINDOW_BYTES;

/** How long a peer may take to finish a close, its own or ours, before it is cut off. */
export const CLOSE_TIMEOUT_MS = 2_000;

/** Messages up to this size wait for the end of the turn to be sent together; a larger one gains nothing by it. */
export const BATCHED_MESSAGE_BYTES = 16 * 1024;

/** How long a server on stdio may take to end after SIGTERM before it is killed. */
export const COMMAND_END_TIMEOUT_MS = 2_000;

/** How long the exit status of a command may come after the end of its output. */
export const COMMAND_STATUS_TIMEOUT_MS = 500;

/** Longest line of a command's stderr that is passed on; the rest of it is left out. */
export const STDERR_LINE_MAX_BYTES = 8 * 1024;

/** Messages from this size on are handed over piece by piece to an owner who takes them so. */
export const LARGE_MESSAGE_BYTES = 64 * 1024;

/** How long a peer that is asked for a sign of life may take. Slower than any network that works, faster than clients give up. */
export const PROBE_TIMEOUT_MS = 3_000;

/**
 * What is set aside at most for a message that has only been announced: an announcement costs its sender nothing. Twice the largest
 * block of a file in base64. Once so much has come there is room for all of it.
 */
export const PREALLOCATED_MESSAGE_MAX_BYTES = 2 * 1024 * 1024;

/** Bytes of a large message that are read at a time: they are still in the processor's cache when they are unmasked and decoded. */
export const LARGE_READ_BYTES = 128 * 1024;

/** Size of the buffer into which everything else is read: as much as Node reads at a time. */
export const SHARED_READ_BYTES = 64 * 1024;

/** Memory of large messages that is kept to be used again, and for how long at the longest: a client that writes a file block by block. */
export const BUFFER_POOL_BYTES = 16 * 1024 * 1024;
export const BUFFER_POOL_IDLE_MS = 1_000;

/** Such memory comes in multiples of this, so that messages of about the same length fit into it. */
export const BUFFER_POOL_UNIT_BYTES = 256 * 1024;
