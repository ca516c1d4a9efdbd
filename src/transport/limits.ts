/**
 * Bytes that a transport passes to the system before it asks for a pause. Small, because a control message waits
 * behind them; large enough to keep a loopback connection busy between two turns of the event loop.
 */
export const SEND_WINDOW_BYTES = 256 * 1024;

/** What a frame that waits to be sent occupies besides its bytes: header, callback and write request. */
export const QUEUED_FRAME_COST_BYTES = 512;

/** How long a peer may take to complete a close handshake, started by either side, before it is cut off. */
export const CLOSE_TIMEOUT_MS = 2_000;

/**
 * Frames of a client of at least this size are masked in pooled buffers: the largest block of a file with its JSON fits. As many are
 * pooled as a client that writes a file has in flight.
 */
export const MASKED_FRAME_MIN_POOLED_BYTES = 256 * 1024;
export const MASKED_FRAME_POOLED_BYTES = 1032 * 1024;
export const MASKED_FRAME_POOL_SIZE = 4;

/** Messages up to this size are batched until the end of the turn. Larger ones gain nothing. */
export const BATCHED_MESSAGE_BYTES = 16 * 1024;

/** How long a server on stdio may take to exit after SIGTERM before it is killed. */
export const COMMAND_END_TIMEOUT_MS = 2_000;

/** How long to wait for the exit status of a command after the end of its output. */
export const COMMAND_STATUS_TIMEOUT_MS = 500;

/** Longest line of a command's stderr that is passed on. The rest is dropped. */
export const STDERR_LINE_MAX_BYTES = 8 * 1024;

/** Chunks of a socket from this size on are freed when they are parsed. Those of small messages are freed cheaply by V8. */
export const FREED_CHUNK_MIN_BYTES = 32 * 1024;

/** Messages from this size on are passed in chunks to a receiver that supports it. */
export const LARGE_MESSAGE_BYTES = 64 * 1024;

/**
 * Bytes of the JSON in a binary message. Reading this much JSON blocks the event loop for some dozens of milliseconds. The JSON of
 * messages with bytes has a few hundred.
 */
export const BINARY_TEXT_MAX_BYTES = 4 * 1024 * 1024;

/**
 * How long a peer may take to answer a liveness probe: longer than a working network needs, shorter than clients
 * wait.
 */
export const PROBE_TIMEOUT_MS = 3_000;

/**
 * Memory allocated at most for a message that was only announced, because an announcement costs its sender nothing.
 * Twice the largest block of a file in base64. After this many bytes the whole expected size is allocated.
 */
export const PREALLOCATED_MESSAGE_MAX_BYTES = 2 * 1024 * 1024;

/**
 * Capacity of the buffer pool, and how long it keeps an unused buffer. Sized for a client that writes a file block
 * by block.
 */
export const BUFFER_POOL_BYTES = 16 * 1024 * 1024;
export const BUFFER_POOL_IDLE_MS = 1_000;

/** Pooled buffers are multiples of this size, so that messages of similar length can share them. */
export const BUFFER_POOL_UNIT_BYTES = 256 * 1024;

/** Requests that the ends of a transport in memory send at a time; the others wait until earlier ones are answered. */
export const MEMORY_UNANSWERED_REQUESTS = 1_024;

/**
 * How long busy connections may use the event loop before it serves the others. A request of another client waits
 * this long, and longer only while a single turn takes longer.
 */
export const TURNS_SLICE_MS = 4;

/**
 * What a connection may use of the event loop before it waits for its next turn, in bytes. Parsing and answering
 * this much takes less than a millisecond.
 */
export const TURN_CREDIT = 256 * 1024;

/** What each frame costs besides its bytes: handling a small request takes as long as reading this many bytes. */
export const FRAME_COST = 4 * 1024;

/** The credit of a connection that has not sent `initialize`: eight frames. Clients send one until then. */
export const NEW_PEER_TURN_CREDIT = 8 * FRAME_COST;

/** A connection that used its credit more slowly than this gets the next one without waiting for its turn. */
export const LIGHT_USE_MS = 100;

/**
 * Largest message of a client that has not sent `initialize`. An `initialize` has a few hundred bytes; its longest
 * member, the trace context, is limited to 8 KiB by most proxies.
 */
export const NEW_PEER_MESSAGE_BYTES = 64 * 1024;
