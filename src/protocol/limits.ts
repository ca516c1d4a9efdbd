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

// The lengths of strings in requests, in UTF-16 units. Every string of a request has one of these limits or is data. The
// parsers behind them (URLs, international host names, globs, regular expressions) are then never given more.

/** Longest id: what the reference accepts as a process id or write id. The server keeps them as long as the process. */
export const MAX_IDENTIFIER_LENGTH = 64 * 1024;

/** Longest name of a client, shell, session, signal, header or HTTP method. Real ones have less than a hundred characters. */
export const MAX_NAME_LENGTH = 1024;

/** Longest `file:` URI or path. A path of PATH_MAX, 4,096 bytes, has 12,288 characters when every byte is percent-encoded. */
export const MAX_URI_LENGTH = 16 * 1024;

/** Longest URL of an HTTP request: the limit of the reference's HTTP library. */
export const MAX_URL_LENGTH = 65_534;

/** Longest glob or host pattern: PATH_MAX of Linux. */
export const MAX_PATTERN_LENGTH = 4096;

/** Longest regular expression. */
export const MAX_EXPRESSION_LENGTH = 16 * 1024;

/** Longest argument or environment variable of a program, and header of an HTTP request: MAX_ARG_STRLEN of Linux without its NUL. */
export const MAX_ARGUMENT_LENGTH = 128 * 1024 - 1;

/** Longest name of a method. Longer ones are unknown. */
export const MAX_METHOD_LENGTH = 256;

// The number of elements of a list and of members of a record.

/** Arguments of a program. ARG_MAX of Linux, usually two megabytes, holds this many with 32 bytes each. */
export const MAX_ARGUMENTS = 64 * 1024;

/** Environment variables, or other values with names that the client chooses. Real environments have about a hundred. */
export const MAX_NAMED_VALUES = 8 * 1024;

/** Keys in one path of a configuration, which is not nested more deeply. */
export const MAX_PATH_KEYS = 128;

/** Elements of any other list. The part of the server that uses the list may accept fewer. */
export const MAX_LIST_LENGTH = 4096;

/** Object size up to which duplicate keys are found by comparison, which is faster than a set. */
export const LINEAR_KEY_SEARCH_MAX = 8;

/** What an output notification counts in a flow-control window, besides its bytes: about the memory that it takes. */
export const OUTPUT_EVENT_OVERHEAD_BYTES = 512;

/** Paths of one `fs/list` request. Its result has a limit of its own. */
export const MAX_LISTED_PATHS = 1_000;

/** Files of one `fs/hash` request: some ten milliseconds for small ones. */
export const MAX_HASHED_PATHS = 1_000;
