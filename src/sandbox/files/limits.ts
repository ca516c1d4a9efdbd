/** Bytes of content in one frame: an efficient size for a pipe, and small enough to let other messages take turns. */
export const FRAME_CONTENT_BYTES = 256 * 1024;

/** Bytes of the JSON head of a message: two paths of maximum length, with six characters per byte. */
export const MESSAGE_HEAD_BYTES = 64 * 1024;

/** Characters of an error message. It fits into a head in any encoding. */
export const FAILURE_TEXT_LENGTH = 8 * 1024;

/** Bytes of frames that are combined into one write. */
export const BATCH_BYTES = 64 * 1024;

/** Bytes that a helper reads in one call: the capacity of a pipe. */
export const INPUT_READ_BYTES = 64 * 1024;

/** Content of one request: that of the largest message of a client. */
export const REQUEST_CONTENT_BYTES = 512 * 1024 * 1024;

/**
 * Content of one answer. The longest are directory listings with fifty thousand names of 255 bytes. Four megabytes of matching lines may
 * take six times as much in JSON.
 */
export const ANSWER_CONTENT_BYTES = 32 * 1024 * 1024;

/** Bytes of a file in one answer. Larger reads take several requests. */
export const READ_PIECE_BYTES = 1024 * 1024;

/** Bytes of a file that come with the answer to opening it. Most files are smaller and need no second request. */
export const INLINE_CONTENT_BYTES = 64 * 1024;

/** Concurrent operations of a helper: more than it has threads, so that no thread waits for the pipe. */
export const OPERATION_CONCURRENCY = 128;

/** Content of the concurrent operations of a helper, in both directions. A single operation may have more. */
export const CONCURRENT_CONTENT_BYTES = 32 * 1024 * 1024;

/** Operations in the queue of one helper. All connections of a server together rarely have so many. */
export const MAX_QUEUED_OPERATIONS = 8_192;

/** Writes of one helper that wait for the reader of a FIFO. Each holds its content in memory. */
export const MAX_WAITING_WRITES = 64;

/** Unsent answer bytes above which a helper reads no further requests. */
export const UNSENT_ANSWER_BYTES = 8 * 1024 * 1024;

/** Files that clients hold open in one helper: sixteen connections with their maximum each. */
export const MAX_HELPER_FILES = 2_048;

/** How much of a helper's stderr is kept. The end says why it failed. */
export const HELPER_STDERR_BYTES = 4 * 1024;

/** Threads of a helper for file operations. Each call on a dead mount blocks one until the mount answers. */
export const HELPER_THREADS = 24;

/** Helpers of one server. Each is a process of about forty megabytes. */
export const MAX_HELPERS = 8;

/** Descriptors of a helper in the server: its three pipes. */
export const HELPER_DESCRIPTORS = 3;

/** How long an operation waits until its session may use one more helper. */
export const HELPER_WAIT_MS = 10_000;

/** How long an idle helper is kept. */
export const HELPER_IDLE_MS = 15_000;

/** How long a helper may take until its first answer. It takes a tenth of a second. */
export const HELPER_START_MS = 20_000;

/** Start attempts for one operation while the mounted files keep changing. */
export const HELPER_START_ATTEMPTS = 3;

/** The largest table that is read from an ELF file. Real ones have a few kilobytes. */
export const ELF_TABLE_BYTES = 1024 * 1024;

/** Operations that wait for a helper. */
export const MAX_WAITING_STARTS = 64;

/** Descriptors among which a helper looks for its own pipes when it starts. Node has opened about twenty by then. */
export const HELPER_FIRST_DESCRIPTORS = 256;
