/** Environments of one manager: far above what a person configures, and a bound for programs that add them. */
export const MAX_ENVIRONMENTS = 256;

/** Characters of an environment id in environments.toml. */
export const MAX_ENVIRONMENT_ID_CHARS = 64;

/** Far above any real configuration file; keeps a device or a log from filling the memory. */
export const MAX_CONFIG_FILE_BYTES = 1024 * 1024;

/** Longest time that a timer of Node can measure, in whole seconds. */
export const MAX_TIMEOUT_SEC = 2_147_483;

/** Characters of a configured value that a message repeats. */
export const MAX_QUOTED_CHARS = 80;

/** Capability roots that the owner of a provisioned environment may report. */
export const MAX_PROVISIONED_ROOTS = 256;

/** Capability roots that a thread may select: far above what people choose, and a bound for programs. */
export const MAX_SELECTED_ROOTS = 1_024;

/** Capability roots that a step takes from the attached environments, beyond those that its thread has selected. */
export const MAX_ATTACHMENT_ROOTS = 256;

/** Capability roots that a thread remembers what it found at: all of a step, and some that were selected before. */
export const MAX_CACHED_ROOTS = 2_048;

/** Capability roots in one request: what servers accept. */
export const DISCOVERY_BATCH_ROOTS = 128;

/** How long a server may look at the roots of one request. They are read from disk; only a dead mount takes longer. */
export const DISCOVERY_TIMEOUT_MS = 60_000;

/** How long discovery waits for a lost connection before the step goes on without what it would have found. */
export const DISCOVERY_READY_WAIT_MS = 8_000;

/** Largest message of an MCP server, whether a line or an event: what a server of processes takes in one message. */
export const MAX_MCP_MESSAGE_BYTES = 64 * 1024 * 1024;

/** How long an MCP server may take to end once its stdin is closed, before it is ended; and how long its end is waited for then. */
export const MCP_END_GRACE_MS = 2_000;

/** Attempts to open the stream of an MCP server over HTTP again, and streams in a row that may end without a byte. */
export const MCP_STREAM_RETRIES = 5;
export const MCP_STREAM_FIRST_DELAY_MS = 500;
export const MCP_STREAM_MAX_DELAY_MS = 10_000;
/** Shortest time between two attempts, whatever the server asks for. */
export const MCP_STREAM_MIN_DELAY_MS = 50;

/** Longest wait for an MCP server over HTTP to end its session. */
export const MCP_SESSION_END_TIMEOUT_MS = 2_000;

/** Bytes of an error page that an error message quotes. */
export const MCP_ERROR_TEXT_BYTES = 500;

/** How long the end of a replaced connection is waited for. One whose executor is gone without a word is never closed. */
export const REPLACED_SOCKET_END_MS = 1_000;

/** How long connecting through a relay may take: its registry is asked for 14 s at most, the rendezvous and the executor have 10 s each. */
export const RELAY_CONNECT_TIMEOUT_MS = 34_000;
