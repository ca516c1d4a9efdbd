/** Certificates that are kept for reuse; the one that was used longest ago goes first. */
export const MAX_LEAVES = 256;

/** How long a certificate for a host is valid: as long as the strictest clients accept, and longer than most programs run. */
export const LEAF_DAYS = 90;

/** Age at which a certificate is made anew, so that programs that begin now are done before it ends. */
export const LEAF_RENEWAL_DAYS = 30;

/** How long the authority itself is valid: longer than any server runs. */
export const AUTHORITY_DAYS = 3650;

/** How far the clock of a program may be behind. */
export const BACKDATED_DAYS = 1;

/** Time for the handshake with a web server, and for that with a program. */
export const TLS_HANDSHAKE_MS = 15_000;
