/**
 * Bytes a transport passes to the system before it asks for a pause. Small, because a control message sent now waits behind
 * them; large enough to keep a loopback connection busy between two turns of the event loop.
 */
export const SEND_WINDOW_BYTES = 256 * 1024;

/** Unsent bytes beyond which pings go unanswered, so that a peer that pings without reading does not fill the memory with pongs. */
export const PONG_WINDOW_BYTES = 4 * SEND_WINDOW_BYTES;

/** How long a peer may take to answer a close before it is cut off. */
export const CLOSE_TIMEOUT_MS = 2_000;

/** Messages up to this size wait for the end of the turn to be sent together; a larger one gains nothing by it. */
export const BATCHED_MESSAGE_BYTES = 16 * 1024;
