/** Bytes of content in one frame: what one write to a pipe and one read from it handle well, and little enough that others get their turn. */
export const FRAME_CONTENT_BYTES = 256 * 1024;

/** Bytes of the JSON in front of a message's content: two paths at their longest, each byte spelled with six characters. */
export const MESSAGE_HEAD_BYTES = 64 * 1024;

/** Characters of the words of a failure, which fit into a head however they are spelled. */
export const FAILURE_TEXT_LENGTH = 8 * 1024;

/** Frames that are handed to the pipe together, so that many small messages cost one write. */
export const BATCH_BYTES = 64 * 1024;

/** Bytes that a helper reads at once: the capacity of a pipe. */
export const INPUT_READ_BYTES = 64 * 1024;

/** Content of one request: what the largest message of a client carries. */
export const REQUEST_CONTENT_BYTES = 512 * 1024 * 1024;

/**
 * Content of one answer. The longest are directory listings: fifty thousand names of 255 bytes. Four megabytes of matching lines
 * may take six times as much as JSON.
 */
export const ANSWER_CONTENT_BYTES = 32 * 1024 * 1024;

/** Bytes of a file in one answer; larger reads are several requests. */
export const READ_PIECE_BYTES = 1024 * 1024;

/** Bytes of a file that come with the answer that it is open. Most files are smaller and need no second request. */
export const INLINE_CONTENT_BYTES = 64 * 1024;

/** Operations that a helper works on at once: more than it has threads, so that none of them waits for the pipe. */
export const OPERATIONS_AT_ONCE = 128;

/** Content, coming and going, of the operations that a helper works on at once. One operation alone may have more. */
export const CONTENT_AT_ONCE_BYTES = 32 * 1024 * 1024;

/** Operations that wait for their turn at one helper; the connections of a server together hardly have so many. */
export const MAX_QUEUED_OPERATIONS = 8_192;

/** Writes of one helper that wait for the reader of a FIFO. Each holds its content. */
export const MAX_WAITING_WRITES = 64;

/** Answers that wait to be taken before a helper takes no further requests. */
export const UNSENT_ANSWER_BYTES = 8 * 1024 * 1024;

/** Files that clients hold open in one helper: sixteen connections with as many as each may have. */
export const MAX_HELPER_FILES = 2_048;

/** What is kept of a helper's complaints; the last ones tell why it ended. */
export const HELPER_STDERR_BYTES = 4 * 1024;

/** Threads of a helper for file operations. Each call on a dead mount holds one until the mount answers. */
export const HELPER_THREADS = 24;

/** Helpers of one server: each is a process of some forty megabytes. */
export const MAX_HELPERS = 8;

/** How long an operation waits for a helper to be free when there are as many as may be and all are busy. */
export const HELPER_WAIT_MS = 10_000;

/** How long a helper that nobody uses stays. */
export const HELPER_IDLE_MS = 15_000;

/** How long a helper may take until it answers for the first time; it takes a tenth of a second. */
export const HELPER_START_MS = 20_000;

/** Starts that are tried for one operation while the files that are mounted keep changing. */
export const HELPER_START_ATTEMPTS = 3;

/** Longest table that is read from the head of a program or library; real ones have some kilobytes. */
export const ELF_TABLE_BYTES = 1024 * 1024;

/** Helpers that wait for the end of others before they are started. */
export const MAX_WAITING_STARTS = 64;
