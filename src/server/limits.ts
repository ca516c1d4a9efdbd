/** How often a server that drains checks whether the last program has closed. */
export const DRAIN_CHECK_MS = 100;

/** How long a server that has drained waits for clients to leave. The output was sent to them before. */
export const DRAIN_LINGER_MS = 1_000;

/** Smallest number of slots kept for new clients, however few descriptors the system allows. */
export const MIN_SLOTS_FOR_NEW_CLIENTS = 2;

/** Descriptors for the streams of a program: three pipes; two without stdin, and two for a terminal. */
export const MAX_STREAM_DESCRIPTORS = 3;

/** Further descriptors of a start in a sandbox: the report pipe, the launcher, and the pipe for the arguments of bwrap. */
export const SANDBOXED_START_DESCRIPTORS = 4;

/** Further descriptors of a program with its own network: two listeners, and the socket pair that they arrive through. */
export const PROGRAM_NETWORK_DESCRIPTORS = 4;

/**
 * After a client has ended its input, its open requests are aborted when no response, and no part of a response or body, was sent for
 * this long. Most web servers answer faster; a file system that hangs never does.
 */
export const LAST_RESPONSES_TIMEOUT_MS = 30_000;

/** How long aborted requests may take to end, and files to be closed. */
export const FINISH_TIMEOUT_MS = 1_000;

/** Output frames of at least this size are built in pooled buffers; smaller ones come from Node's own pool. */
export const POOLED_FRAME_MIN_BYTES = 32 * 1024;

/** Size of these buffers: a full read of output, or the largest chunk for text clients in base64 with its envelope. */
export const POOLED_FRAME_BYTES = 128 * 1024;

/** Buffers in that pool: as many as one busy connection uses. */
export const FRAME_POOL_SIZE = 12;

/**
 * Bytes of the envelope around the result of `process/read`. Output is cut into chunks that fit into a response with it. The id of the
 * request may take 79 of them, twice a UUID; with a longer id and a small `maxResponseBytes` the response is refused.
 */
export const READ_ENVELOPE_BYTES = 96;

/** Largest page of `process/read`: more than the default settings retain. It is encoded in one turn of the event loop. */
export const READ_PAGE_BYTES = 8 * 1024 * 1024;

/** Largest page of `process/list`. One page holds a thousand ordinary processes; ids and paths can be long. */
export const LIST_PAGE_BYTES = 1024 * 1024;

/** Bytes of a recording in one response. */
export const RECORDING_PAGE_BYTES = 1024 * 1024;

/** Bytes of one stream in the result of `process/snapshot`, more than the default settings retain. */
export const SNAPSHOT_STREAM_BYTES = 2 * 1024 * 1024;

/** JSON of the result of `process/snapshot` besides the bytes of its streams, rounded up. */
export const SNAPSHOT_ENVELOPE_BYTES = 1024;

/**
 * Files up to this size are sent in one response; larger ones are read while they are sent. It is a multiple of three, so that the
 * base64 texts of the first part and of the rest can be concatenated.
 */
export const INLINE_READ_BYTES = 1536 * 1024;

/**
 * Concurrent file operations of one connection, and how many of them may traverse trees. A traversal uses at most sixteen threads, and
 * the watches of a connection six. A connection whose operations all hang on a dead mount thus leaves some of the server's 48 threads
 * to others.
 */
export const FILE_OPERATIONS_PER_CONNECTION = 8;
export const TREE_OPERATIONS_PER_CONNECTION = 2;

/** Open HTTP requests of one connection. Each holds a socket, and the system limits the descriptors of a process. */
export const HTTP_REQUESTS_PER_CONNECTION = 512;

/** HTTP requests that are aborted in one turn of the event loop. Each takes a fifth of a millisecond. */
export const HTTP_ABORTS_PER_TURN = 64;

/** Open TCP streams of one connection, including those that are being opened. Each holds a socket. */
export const TCP_STREAMS_PER_CONNECTION = 512;

/** Sockets that are reset in one turn of the event loop. */
export const TCP_RESETS_PER_TURN = 64;

/** Bytes that a client accepts from a TCP stream before it reports them as used, unless it says otherwise. */
export const TCP_WINDOW_BYTES = 1024 * 1024;

/** Marks that record how much output a flow-control window had up to an event. A report is rounded down to one of them. */
export const OUTPUT_WINDOW_MARKS = 64;

/**
 * The largest window of a process with `holdOutput`, and how much of its output the server must be able to hold. Clients report what they
 * use twice in each window at least. The minimum is more than half a window, so that a report always comes before the output is full.
 */
export const HELD_WINDOW_MAX_BYTES = 1024 * 1024;
export const HELD_OUTPUT_MIN_BYTES = (HELD_WINDOW_MAX_BYTES * 3) / 4;

/** Size of the buffer that all TCP streams read into, one after the other. In base64 it fits into a pooled frame. */
export const TCP_READ_BYTES = 64 * 1024;

/** Port watches of one connection; a client needs one. */
export const PORT_WATCHES_PER_CONNECTION = 16;

/** Ports in one `ports/changed`: about 100 KiB of JSON. */
export const MAX_REPORTED_PORTS = 1024;

/** How often the server looks for listening ports while a client watches. */
export const PORT_POLL_MS = 1_000;

/**
 * Pause after each scan for ports: this long, or the time that the scan took multiplied by PORT_SCAN_REST_FACTOR. So scans take at most a
 * tenth of the event loop, however often clients ask.
 */
export const PORT_SCAN_REST_MS = 100;
export const PORT_SCAN_REST_FACTOR = 9;

/** Largest piece of a streamed body in one message; clients of the reference accept no more. */
export const MAX_BODY_DELTA_BYTES = 1024 * 1024;

/** How long a start, or a method that reads many files, waits for earlier file changes. Only changes that hang take longer. */
export const EARLIER_CHANGES_MS = 2_000;

/** Files of at least this size are read into pooled buffers, and the number of buffers in that pool. */
export const POOLED_CONTENT_MIN_BYTES = 128 * 1024;
export const CONTENT_POOL_SIZE = 2;

/** Pooled buffers for blocks of files: as many as a client that reads ahead uses. */
export const BLOCK_POOL_SIZE = 4;

/** Largest file that a token or secret is read from; no real secret is this long. */
export const MAX_SECRET_FILE_BYTES = 64 * 1024;

/** How often connections are checked for expired tokens. */
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

/** Connections that can be attached to one process. Each chunk of output is passed to all of them in one turn of the event loop. */
export const ATTACHMENTS_PER_PROCESS = 256;

/** Processes that one connection can be attached to, by `process/attach`. */
export const ATTACHMENTS_PER_CONNECTION = 256;

/** Attached clients that a listing or notification names, and the length of each name. The number of all of them is reported too. */
export const SHOWN_ATTACHED_CLIENTS = 64;
export const SHOWN_CLIENT_NAME_CHARS = 64;

/** Processes that are gone and whose end a client that does not read has not been sent. The oldest is forgotten beyond that. */
export const ENDING_PROCESSES_PER_SESSION = 1_024;

/** A client is notified of the other clients of a process at most once in this time. People do not notice the delay. */
export const ATTACHMENT_INTERVAL_MS = 50;

/** Retained output that is read at a time for a client that catches up. It stops there when its connection is saturated. */
export const CATCH_UP_PAGE_BYTES = 256 * 1024;

/** Characters of a reference. With 32 different ones a server can count on 2^40 references, so one that is gone is hardly used again. */
export const REF_CHARS = 8;

/** References that are made of one read of random bytes: a kilobyte. */
export const REFS_PER_RANDOM_READ = 128;

/** Processes that are gone whose references still get an error that says how they ended. Each takes some hundred bytes. */
export const ENDED_PROCESS_RECORDS = 4_096;

/** How long the output of a detached process stays readable after it has closed, if the request does not say. */
export const DEFAULT_DETACHED_RETENTION_MS = 3_600_000;

/** An idle server ends at most a quarter of `idleTimeoutMs` late. */
export const IDLE_CHECKS_PER_TIMEOUT = 4;
/** The longest time between two checks whether a server is idle. */
export const MAX_IDLE_CHECK_MS = 5_000;

/** Characters of the paths that a listing shows of a sandbox. A longer list is not shown. */
export const MAX_LISTED_SANDBOX_CHARACTERS = 8_192;
