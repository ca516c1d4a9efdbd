/** Characters kept of one text in a record. A stack fits; what a client sends in megabytes does not. */
export const MAX_LOGGED_CHARS = 8_192;

/** Characters looked at beyond those that are kept, so that a secret at the cut is recognised before it is cut in two. */
export const REDACTION_MARGIN_CHARS = 512;
