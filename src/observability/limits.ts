/** Characters kept of one text in a record. A stack trace fits; megabytes sent by a client do not. */
export const MAX_LOGGED_CHARS = 8_192;

/** Characters examined beyond those that are kept, so that a secret is recognised before it is cut in two. */
export const REDACTION_MARGIN_CHARS = 512;

/** Characters of a tracestate: the minimum that the W3C recommendation asks to propagate. */
export const MAX_TRACESTATE_CHARS = 512;

/** Bytes of log lines that wait for a slow reader. Lines beyond them are left out and counted. */
export const MAX_QUEUED_LOG_BYTES = 16 * 1024 * 1024;
