/** How long a client may take to send its request headers. */
export const HEADERS_TIMEOUT_MS = 10_000;

/** How long requests may run on once the client sends nothing more. A write to a program that does not read never ends. */
export const FINISH_TIMEOUT_MS = 1_000;
