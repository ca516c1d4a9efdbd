/** Text without a line end that a secret is looked for in. Longer secrets are found where they begin. */
export const MASK_WINDOW_CHARS = 4_096;

/** Text before a line that may be the beginning of a secret in it. */
export const MASK_CONTEXT_CHARS = 512;

/** Text before a line that belongs to a secret of several lines. Larger than any private key. */
export const MASK_MAX_CONTEXT_CHARS = 32_768;

/** How long an unfinished line waits for its rest. A secret in it may be split after that time. */
export const UNFINISHED_LINE_MS = 500;

/** Output of one recording that waits because an unfinished line of another stream comes before it. */
export const MAX_WAITING_CHARS = 1_048_576;

/** Lines of one recording that wait for the disk. Further output is lost. */
export const MAX_QUEUED_BYTES = 8_388_608;

/** Bytes that are written in one call. */
export const WRITE_BATCH_BYTES = 262_144;

/** Space of a recording that is kept for its last markers and its exit status. */
export const RESERVED_BYTES = 1_024;

/** How long a recording waits after a write has failed before it tries again. */
export const WRITE_RETRY_MS = 1_000;

/** Text of the markers for viewers that come and go in one recording. They must not fill it, because viewers may change nothing. */
export const VIEWER_MARKER_CHARS = 8_192;

/** How long a server that ends waits for its recordings. */
export const CLOSE_TIMEOUT_MS = 2_000;

/** Characters of the command and of the title in a header. */
export const HEADER_TEXT_CHARS = 4_096;

/** Characters of an environment variable in a header. */
export const HEADER_VARIABLE_CHARS = 128;

/** Bytes that are read of the beginning of a recording. Its header fits. */
export const HEADER_READ_BYTES = 65_536;

/** Bytes that are read of the end of a recording. Its last two events fit. */
export const TAIL_READ_BYTES = 2_048;

/** How often recordings that are too old are removed, and those that run are marked as live. */
export const RETENTION_CHECK_MS = 600_000;

/** A recording without an end that was changed so recently may be live in another server: three checks. */
export const LIVE_MS = 3 * RETENTION_CHECK_MS;

/** Headers of recordings that are kept in memory. */
export const CACHED_HEADERS = 10_000;

/** Files of recordings that are read at the same time for clients. */
export const CONCURRENT_READS = 2;
