/** How long `exec_command` watches a program when the model does not say, and the bounds of what it may say. */
export const DEFAULT_YIELD_MS = 10_000;
export const MIN_YIELD_MS = 250;
export const MAX_YIELD_MS = 30_000;

/** Programs of Windows take long to come up; a shorter look would mostly see nothing. */
export const MIN_WINDOWS_YIELD_MS = 10_000;

/** How long `write_stdin` watches behind input when the model does not say; enough for an answer to what was typed. */
export const DEFAULT_WRITE_YIELD_MS = 250;

/** Bounds of a look without input. The lower one keeps a model from asking in a loop. */
export const MIN_POLL_MS = 5_000;
export const DEFAULT_MAX_POLL_MS = 300_000;

/** Time that a program gets to take its input before its answer is waited for. */
export const WRITE_SETTLE_MS = 100;

/** A sandboxed program that ends this early may have been stopped by its sandbox before it did anything. */
export const EARLY_EXIT_MS = 150;

/**
 * Silence behind the end of a program after which its output is held open by something it has left running. Exit and close
 * follow each other at once otherwise; a slow connection must not be taken for it.
 */
export const OPEN_OUTPUT_QUIET_MS = 250;

/** How long a refused write waits for the news that the program has ended, which explains it. */
export const LATE_EXIT_MS = 250;

/** Tokens of output that a call returns when the model does not say, and the estimate of what a token is. */
export const DEFAULT_OUTPUT_TOKENS = 10_000;
export const BYTES_PER_TOKEN = 4;

/** What the text of a call may be beyond the policy of the model: room for the header, so that nobody has to shorten it again. */
export const TEXT_ALLOWANCE = 1.2;

/** Output that waits for the next call, and output remembered for the end event: each per process, half head and half tail. */
export const UNREAD_BYTES = 1024 * 1024;
export const TRANSCRIPT_BYTES = 1024 * 1024;

/** Output of a sandboxed program that is held back until its first moments have passed; beyond it the program is not read. */
export const HELD_OUTPUT_BYTES = 1024 * 1024;

/** An output event carries at most so many bytes, and one call causes at most so many: a flood of output is not one of events. */
export const DELTA_BYTES = 8_192;
export const MAX_DELTAS = 10_000;

/** Sessions that are kept; of these the most recently used are never given up for a new one. */
export const MAX_SESSIONS = 64;
export const PROTECTED_SESSIONS = 8;

/** Sessions including those whose calls are under way, none of which can be given up. Beyond it commands are refused. */
export const MAX_BUSY_SESSIONS = 256;

/** Calls that wait for another call on the same session. */
export const MAX_WAITING_CALLS = 32;

/** Range of session ids: short enough for a model to repeat without mistakes. */
export const FIRST_SESSION_ID = 1_000;
export const LAST_SESSION_ID = 99_999;

/** How long an executor may take to start a program or to take input, a connection that is opened or recovered for it included. */
export const EXECUTOR_TIMEOUT_MS = 60_000;

/** How long ending a process may take, and how long it is then followed until its output is complete. */
export const TERMINATE_TIMEOUT_MS = 10_000;
export const ABANDON_MS = 10_000;

/** How long the last events of all processes are waited for when everything is closed. */
export const CLOSE_WAIT_MS = 1_000;

/** Longest line that a program on stdio may write: whole files come in one message. */
export const MAX_LINE_BYTES = 64 * 1024 * 1024;

/** How long a program on stdio may take to end by itself when its input ends, and then when it is asked to. */
export const STDIO_EXIT_WAIT_MS = 2_000;
