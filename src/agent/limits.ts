/** How long `exec_command` waits for a program: the default, and the bounds for the model's value. */
export const DEFAULT_YIELD_MS = 10_000;
export const MIN_YIELD_MS = 250;
export const MAX_YIELD_MS = 30_000;

/** Minimum for Windows shells, which start slowly; a shorter wait would usually return no output. */
export const MIN_WINDOWS_YIELD_MS = 10_000;

/** How long `write_stdin` waits after input by default; enough for a response to the input. */
export const DEFAULT_WRITE_YIELD_MS = 250;

/** Bounds of a poll without input. The minimum keeps a model from polling in a tight loop. */
export const MIN_POLL_MS = 5_000;
export const DEFAULT_MAX_POLL_MS = 300_000;

/** Time for a program to read its input before the wait for its output starts. */
export const WRITE_SETTLE_MS = 100;

/** A sandboxed program that ends this early may have been stopped by its sandbox before it had an effect. */
export const EARLY_EXIT_MS = 150;

/**
 * Silence after the exit of a program that means that a child process keeps its output open. Otherwise `closed` follows `exited`
 * immediately, apart from a slow connection.
 */
export const OPEN_OUTPUT_QUIET_MS = 250;

/** How long a rejected write waits for the exit event that explains it. */
export const LATE_EXIT_MS = 250;

/** Default tokens of output per call, and the estimated bytes per token. */
export const DEFAULT_OUTPUT_TOKENS = 10_000;
export const BYTES_PER_TOKEN = 4;

/** How much the text of a call may exceed the model's policy: space for the header, so that it need not be truncated again. */
export const TEXT_ALLOWANCE = 1.2;

/** Output kept for the next call and for the end event: each per process, half head and half tail. */
export const UNREAD_BYTES = 1024 * 1024;
export const TRANSCRIPT_BYTES = 1024 * 1024;

/** Output of a sandboxed program that is held during its early phase. Above it the program is not read. */
export const HELD_OUTPUT_BYTES = 1024 * 1024;

/** Bytes per output event, and output events per call, so that a flood of output does not become a flood of events. */
export const DELTA_BYTES = 8_192;
export const MAX_DELTAS = 10_000;

/** How long a policy may take to decide about a host. A person may be asked, but the program waits. */
export const HOST_DECISION_MS = 300_000;

/** Decisions about the network that become events, per program. */
export const MAX_NETWORK_EVENTS = 1_000;

/** Denials of the network that one call returns, and the characters of each reason in its text, so that output keeps its share. */
export const MAX_REPORTED_DENIALS = 8;
export const MAX_REASON_IN_TEXT = 200;

/** Sessions that are kept, and how many of the most recently used are never evicted. */
export const MAX_SESSIONS = 64;
export const PROTECTED_SESSIONS = 8;

/** Sessions including those with a call, which cannot be evicted. Above it commands are rejected. */
export const MAX_BUSY_SESSIONS = 256;

/** Calls that may wait for another call on the same session. */
export const MAX_WAITING_CALLS = 32;

/** Range of session ids: short enough for a model to repeat without mistakes. */
export const FIRST_SESSION_ID = 1_000;
export const LAST_SESSION_ID = 99_999;

/** Time limit of an executor to start a program or to accept input, including the time to connect or recover. */
export const EXECUTOR_TIMEOUT_MS = 60_000;

/** Time limit to terminate a process, and then to receive the rest of its output. */
export const TERMINATE_TIMEOUT_MS = 10_000;
export const ABANDON_MS = 10_000;

/** How long `close` waits for the last events of all processes. */
export const CLOSE_WAIT_MS = 1_000;

/** Longest line of a program on stdio; one message may contain a whole file. */
export const MAX_LINE_BYTES = 64 * 1024 * 1024;

/** How long a program on stdio may take to exit after its stdin is closed, and again after the request to terminate. */
export const STDIO_EXIT_WAIT_MS = 2_000;
