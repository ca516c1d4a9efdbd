/** Fewest slots that are kept for new clients, however few descriptors the system allows. */
export const MIN_SLOTS_FOR_NEW_CLIENTS = 2;

/** Descriptors of a running program: three pipes, or two for a terminal. */
export const DESCRIPTORS_PER_PROCESS = 3;

/**
 * How long a client that sends nothing more waits for its next answer, or a further part of one or of a body, before the requests that are left
 * are given up: longer than most web servers take, and a file system that hangs may never answer.
 */
export const LAST_ANSWERS_TIMEOUT_MS = 30_000;

/** How long requests that were given up may take to say so, and files to be closed. */
export const FINISH_TIMEOUT_MS = 1_000;

/** Frames from this size on are built in buffers that are used again; smaller ones come from Node's own pool. */
export const REUSED_FRAME_MIN_BYTES = 32 * 1024;

/** Size of these buffers: a full read of output in base64, and the words around it unless the process id is very long. */
export const REUSED_FRAME_BYTES = 88 * 1024;

/** Such buffers that are kept: what one busy connection has under way. */
export const REUSED_FRAMES_MAX = 16;

/**
 * What stands around the result of a read of output when chunks are cut so that one fits into an answer: the id of the request may
 * take 79 of it, twice a UUID. Who chooses a longer one where answers are that small has them refused.
 */
export const READ_ENVELOPE_BYTES = 96;

/**
 * Files up to this size are answered in one piece, larger ones are read while they are sent. A multiple of three, so that the
 * base64 texts of what was read first and of the rest join.
 */
export const INLINE_READ_BYTES = 1536 * 1024;

/**
 * File operations of one connection that are with the system at once, and those among them that go through trees. Such a one takes
 * sixteen threads at most and the watches of a connection six, so that a connection whose operations all hang on a dead mount
 * leaves some of the server's 48 to others.
 */
export const FILE_OPERATIONS_PER_CONNECTION = 8;
export const TREE_OPERATIONS_PER_CONNECTION = 2;

/** Requests to web servers that one connection may have under way. Each holds a socket, of which the system allows a process few. */
export const HTTP_REQUESTS_PER_CONNECTION = 512;

/** Largest piece of a streamed body in one message: what clients of the reference accept. */
export const MAX_BODY_DELTA_BYTES = 1024 * 1024;

/** How long a start, or whatever looks at many files, waits for changes that were asked for before. Longer than any takes, unless it hangs. */
export const EARLIER_CHANGES_MS = 2_000;

/** Contents of files from this size on are read into buffers that are used again, and so many of those are kept. */
export const REUSED_CONTENT_MIN_BYTES = 128 * 1024;
export const REUSED_CONTENTS_MAX = 2;

/** Buffers for blocks of files that are kept: what a client that asks ahead has under way. */
export const REUSED_BLOCKS_MAX = 4;

/** Largest file that a token or secret is read from: far more than either ever has. */
export const MAX_SECRET_FILE_BYTES = 64 * 1024;

/** How often a connection is looked at whose token may expire. */
export const TOKEN_EXPIRY_CHECK_MS = 1_000;

/**
 * The event loop busy-polls after a response to a client that sent its request within BUSY_POLL_MAX_PAUSE_MS of the response before.
 * It does so for BUSY_POLL_MS. A client that does nothing else needs 0.1 ms for a round trip; one that processes each response first
 * is still fast enough.
 */
export const BUSY_POLL_MAX_PAUSE_MS = 0.3;
export const BUSY_POLL_MS = 0.2;

/** Number of slower requests in a row after which a client is no longer busy-polled for. */
export const BUSY_POLL_CREDIT = 3;

/** A request that arrives this soon after a response was sent before the client had that response: the client pipelines. */
export const PIPELINED_PAUSE_MS = 0.01;

/** Most turns of the event loop in one busy poll, in case the clock stands still. More than fit into BUSY_POLL_MS. */
export const BUSY_POLL_MAX_TURNS = 1_000;
