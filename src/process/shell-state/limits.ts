/** Bytes of a scope's name: the reference's limit. */
export const MAX_SCOPE_BYTES = 256;

/** States that one session keeps; the one that was used longest ago goes first: the reference's number. */
export const MAX_STATES = 16;

/** How long a login shell may take to get ready: the reference's number. Commands wait for it, once. */
export const CAPTURE_TIMEOUT_MS = 10_000;

/** Functions, options and aliases of one state. The completions of a richly equipped zsh have about a megabyte. */
export const MAX_STATE_BYTES = 4 * 1024 * 1024;

/** What the states of one session take together; a client may open many sessions. */
export const MAX_SESSION_STATE_BYTES = 8 * 1024 * 1024;

/** Variables of one state, and one of them or one argument: beyond these the system might refuse to start anything with them. */
export const MAX_EXPORTED_BYTES = 512 * 1024;
export const MAX_VARIABLE_BYTES = 128 * 1024 - 1;

/** Bytes of a state in one variable, and in all, where it cannot be passed by a descriptor: within what the system takes. */
export const STATE_VARIABLE_BYTES = 60 * 1024;
export const MAX_STATE_IN_VARIABLES_BYTES = 512 * 1024;
