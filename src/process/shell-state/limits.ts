/** Bytes of a scope id: the reference's limit. */
export const MAX_SCOPE_BYTES = 256;

/** States that one session keeps: the reference's number. The least recently used one is evicted. */
export const MAX_STATES = 16;

/** Timeout of a login shell: the reference's number. The first command waits for it. */
export const CAPTURE_TIMEOUT_MS = 10_000;

/** Functions, options and aliases of one state. The completions of a richly equipped zsh have about a megabyte. */
export const MAX_STATE_BYTES = 4 * 1024 * 1024;

/** Total size of the states of one session; a client may open many sessions. */
export const MAX_SESSION_STATE_BYTES = 8 * 1024 * 1024;

/** All variables of one state, and one variable or argument. With larger ones the kernel might refuse every start (E2BIG). */
export const MAX_EXPORTED_BYTES = 512 * 1024;
export const MAX_VARIABLE_BYTES = 128 * 1024 - 1;

/** Bytes of a state in one variable and in all variables, when it cannot be passed by a descriptor: within the kernel's limits. */
export const STATE_VARIABLE_BYTES = 60 * 1024;
export const MAX_STATE_IN_VARIABLES_BYTES = 512 * 1024;
