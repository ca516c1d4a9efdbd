/** Requests of one connection that may wait for a slot; beyond it the intake pauses. */
export const MAX_QUEUED_REQUESTS = 1024;

/** Encoded bytes of waiting requests; beyond it the intake pauses. */
export const MAX_QUEUED_REQUEST_BYTES = 64 * 1024 * 1024;

/** Requests of one connection that may wait without holding a slot; further ones keep theirs. */
export const MAX_PARKED_REQUESTS = 1024;

/**
 * Requests of one connection that may be under way without a slot of their own: parked ones, control requests and what those pull
 * along. Beyond it the intake pauses. Only a client that floods gets there.
 */
export const MAX_REQUESTS_BEYOND_SLOTS = 4096;

/** Requests of ours that a peer may leave unanswered. */
export const MAX_PENDING_CALLS = 1024;

/** Bytes of answers that a peer may leave unread before no further requests of it are read or started. */
export const UNSENT_ANSWERS_MAX_BYTES = 8 * 1024 * 1024;
