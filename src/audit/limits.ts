/** Longest line of an audit log. The largest record, a process start with every character escaped, is shorter. */
export const AUDIT_LINE_MAX_BYTES = 512 * 1024;

/** Longest text field of a record; the rest is cut off. */
export const AUDIT_TEXT_CHARS = 4_096;

/** Arguments and variable names that the record of a process start keeps. The record also has their total number. */
export const AUDIT_LIST_ENTRIES = 64;

/** Characters that a record keeps of all arguments together. */
export const AUDIT_LIST_CHARS = 32 * 1024;

/**
 * Records that may wait for the disk. New work is refused long before that; programs that still run when the disk fails add their exit
 * records.
 */
export const AUDIT_PENDING_RECORDS = 65_536;

/** How many of the pending records may be of low priority: about connections and refusals. */
export const AUDIT_PENDING_LOW_PRIORITY_RECORDS = 8_192;

/**
 * Rejected connections that are recorded individually within {@link REJECTED_CONNECTIONS_WINDOW_MS}. This bounds them to about 200 MB
 * a day under any load.
 */
export const REJECTED_CONNECTIONS_PER_WINDOW = 600;
/** How many of them may be of one token or address, so that one client cannot hide the others. */
export const REJECTED_CONNECTIONS_PER_SOURCE = 60;
export const REJECTED_CONNECTIONS_WINDOW_MS = 60_000;

/** Interval of retries after a failed write. */
export const AUDIT_RETRY_MS = 500;

/** How long a write may take before new work is refused. A busy disk responds within this time, a dead mount never does. */
export const AUDIT_STALL_MS = 10_000;

/** How long the last records may take when the server shuts down. */
export const AUDIT_CLOSE_MS = 2_000;

/** Size of the blocks in which verification reads a log. */
export const AUDIT_VERIFY_BLOCK_BYTES = 1024 * 1024;

/** How much of the end of an audit log is read to show its latest records, and how many of them are shown. */
export const AUDIT_TAIL_BYTES = 256 * 1024;
export const AUDIT_TAIL_RECORDS = 200;
