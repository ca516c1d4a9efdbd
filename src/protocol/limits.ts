/** What one incoming message may cost. */
export interface MessageLimits {
  /** Largest encoded message in bytes. */
  readonly maxMessageBytes: number;
  /** Deepest nesting, the root object included. */
  readonly maxJsonDepth: number;
  /** JSON values in one message: the root, every member value and every element. Keys are free. */
  readonly maxJsonValues: number;
}

/** The limits of the reference: what its clients were written against. */
export const DEFAULT_MESSAGE_LIMITS: MessageLimits = Object.freeze({
  maxMessageBytes: 64 * 1024 * 1024,
  maxJsonDepth: 127,
  maxJsonValues: 262_144,
});

/** Range of integer request ids; both ends are inclusive. */
export const MIN_REQUEST_ID = -(2n ** 63n);
export const MAX_REQUEST_ID = 2n ** 63n - 1n;

/**
 * Longest key of an object, its quotes included. The engine does not hash longer strings but takes their length for it, so an
 * object with thousands of longer keys would keep it comparing them for a minute.
 */
export const MAX_KEY_LENGTH = 16_383;

/** Longest process id or write id: what the reference was seen to accept. They are kept for as long as the process. */
export const MAX_IDENTIFIER_LENGTH = 64 * 1024;

/** Object size up to which duplicate keys are looked for by comparison, which beats building a set. */
export const LINEAR_KEY_SEARCH_MAX = 8;
