/** Environments of one manager. It is far above real configurations and bounds programs that add environments. */
export const MAX_ENVIRONMENTS = 256;

/** Characters of an environment id in environments.toml. */
export const MAX_ENVIRONMENT_ID_CHARS = 64;

/** Largest configuration file. It is far above real ones and keeps a device or a log file from filling the memory. */
export const MAX_CONFIG_FILE_BYTES = 1024 * 1024;

/** Longest timer of Node, in whole seconds. */
export const MAX_TIMEOUT_SEC = 2_147_483;

/** Characters of a configured value that a message quotes. */
export const MAX_QUOTED_CHARS = 80;

/** Capability roots that the owner of a provisioned environment may report. */
export const MAX_PROVISIONED_ROOTS = 256;

/** Capability roots that a thread may select. It is far above real selections and bounds programs. */
export const MAX_SELECTED_ROOTS = 1_024;

/** Capability roots that a step takes from the attached environments, in addition to those that its thread selected. */
export const MAX_ATTACHMENT_ROOTS = 256;

/** Largest record of a stored thread, with its line end: a turn with a few large tool results. */
export const MAX_THREAD_RECORD_BYTES = 16 * 1024 * 1024;

/** Largest stored thread. It is read into memory as a whole. */
export const MAX_THREAD_BYTES = 128 * 1024 * 1024;

/** Age at which the temporary file of a new thread belongs to a process that has ended. Writing one takes seconds at most. */
export const UNFINISHED_THREAD_MS = 60 * 60 * 1000;

/** Capability roots in the cache of a thread: all of a step and some earlier ones. */
export const MAX_CACHED_ROOTS = 2_048;

/** Capability roots in one request; the limit of servers. */
export const DISCOVERY_BATCH_ROOTS = 128;

/** Time limit of one discovery request. The server reads files from disk; only a dead mount takes longer. */
export const DISCOVERY_TIMEOUT_MS = 60_000;

/** Warnings of an executor that the error about a missing skill quotes. */
export const MAX_LISTED_WARNINGS = 3;

/** How long discovery waits for a lost connection before the step continues without its result. */
export const DISCOVERY_READY_WAIT_MS = 8_000;

/** Largest message of an MCP server: a line, an event or a JSON body. It equals the default limit of an exec-server. */
export const MAX_MCP_MESSAGE_BYTES = 64 * 1024 * 1024;

/**
 * How long an MCP server may take to exit after its stdin is closed, and again after it is terminated, and how long its output may
 * stay open after its exit.
 */
export const MCP_END_GRACE_MS = 2_000;

/** MCP servers that a thread runs for its plugins. */
export const MAX_MCP_SERVERS = 128;

/** Time limit for the start of a plugin's MCP server and its first response. `npx` may have to download it first. */
export const MCP_START_TIMEOUT_MS = 60_000;

/** Restarts in a row of a plugin's MCP server, and the delays before them. A server that ran for a minute starts a new row. */
export const MCP_RESTARTS = 4;
export const MCP_RESTART_FIRST_DELAY_MS = 250;
export const MCP_RESTART_MAX_DELAY_MS = 5_000;
export const MCP_STABLE_MS = 60_000;

/** How long a step leaves a failed MCP server alone before it tries again. */
export const MCP_RETRY_MS = 30_000;

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

/** How long a new connection waits for the close of the replaced one. A connection to a vanished executor never closes. */
export const REPLACED_SOCKET_END_MS = 1_000;

/** Time limit for connecting through a relay: 14 s for its registry, 10 s each for the rendezvous and the executor. */
export const RELAY_CONNECT_TIMEOUT_MS = 34_000;
