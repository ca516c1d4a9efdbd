/** Delays between attempts to reach a lost server again: they double up to the maximum. Each is shortened at random by up to a half. */
export const FIRST_RETRY_MS = 50;
export const MAX_RETRY_MS = 5_000;

/** A connection that lasted this long counts as working, and is replaced without a delay. */
export const GOOD_CONNECTION_MS = 1_000;

/** Connections to local ports that wait while the server cannot be reached. */
export const MAX_WAITING_CONNECTIONS = 512;

/** Ports that `--auto` forwards. Each takes a descriptor. */
export const MAX_AUTO_PORTS = 256;

/** Different errors of connections that are remembered, so that each is shown once. */
export const MAX_SHOWN_ERRORS = 100;

/** How long a SOCKS client has to read why it was refused before its connection is closed. */
export const REFUSAL_LINGER_MS = 2_000;

/** How long the command waits for the regular end of its connection. */
export const CLOSE_TIMEOUT_MS = 1_000;
