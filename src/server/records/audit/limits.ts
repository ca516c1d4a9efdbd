/** Longest line of an audit log. The largest record, a start whose every character is escaped, stays below. */
export const AUDIT_LINE_MAX_BYTES = 512 * 1024;

/** Characters kept of one text of a record. */
export const AUDIT_TEXT_CHARS = 4_096;

/** Arguments and variable names kept of one start; how many there were is told. */
export const AUDIT_LIST_ENTRIES = 64;

/** Characters kept of all arguments together. */
export const AUDIT_LIST_CHARS = 32 * 1024;

/**
 * Records that wait for the disk. New work is refused before so many gather; what runs when the disk is lost adds the records of
 * its end.
 */
export const AUDIT_PENDING_RECORDS = 65_536;

/** Of these, how many may be about connections and refusals. */
export const AUDIT_PENDING_NEWS = 8_192;

/** Clients turned away that are recorded one by one within {@link AUDIT_TURNED_AWAY_MS}: some 200 MB a day, whatever comes. */
export const AUDIT_TURNED_AWAY_RECORDS = 600;
export const AUDIT_TURNED_AWAY_MS = 60_000;

/** How often a log that could not be written is tried again. */
export const AUDIT_RETRY_MS = 500;

/** How long a write may take before new work is refused. A dead mount answers never; a busy disk within this time. */
export const AUDIT_STALL_MS = 10_000;

/** How long the last records may take when the server ends. */
export const AUDIT_CLOSE_MS = 2_000;

/** Bytes read at once when a log is verified. */
export const AUDIT_VERIFY_BLOCK_BYTES = 1024 * 1024;
