/** Limits of one incoming message. */
export interface MessageLimits {
  /** Largest encoded message in bytes. */
  readonly maxMessageBytes: number;
  /** Deepest nesting, including the root object. */
  readonly maxJsonDepth: number;
  /** JSON values in one message: the root, every member value and every element. Keys do not count. */
  readonly maxJsonValues: number;
}

/** The limits of the reference, which its clients are written against. */
export const DEFAULT_MESSAGE_LIMITS: MessageLimits = Object.freeze({
  maxMessageBytes: 64 * 1024 * 1024,
  maxJsonDepth: 127,
  maxJsonValues: 262_144,
});

/** Range of integer request ids; both ends are inclusive. */
export const MIN_REQUEST_ID = -(2n ** 63n);
export const MAX_REQUEST_ID = 2n ** 63n - 1n;

/**
 * Longest key of an object, including its quotes. V8 does not hash longer strings but uses their length as the
 * hash, so an object with thousands of longer keys would take a minute to compare.
 */
export const MAX_KEY_LENGTH = 16_383;

/**
 * Keys of all objects of one request. Unlike other values each new key costs the engine a microsecond. The largest real
 * requests have an environment of some thousand variables. Results may have as many keys as values.
 */
export const MAX_REQUEST_KEYS = 32_768;

/** Numbers of one request that are no 64-bit integers. No parameter takes one, so they are only accepted where they are ignored. */
export const MAX_REQUEST_FRACTIONS = 1_024;

/** Longest process id or write id: what the reference accepts. The server keeps them as long as the process. */
export const MAX_IDENTIFIER_LENGTH = 64 * 1024;

/** Object size up to which duplicate keys are found by comparison, which is faster than a set. */
export const LINEAR_KEY_SEARCH_MAX = 8;
