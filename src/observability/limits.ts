/** Characters kept of one text in a record. A stack fits; what a client sends in megabytes does not. */
export const MAX_LOGGED_CHARS = 8_192;

/** Characters looked at beyond those that are kept, so that a secret at the cut is recognised before it is cut in two. */
export const REDACTION_MARGIN_CHARS = 512;

/** Characters of a trace's state: what the recommendation asks everybody to pass on at least. */
export const MAX_TRACESTATE_CHARS = 512;
