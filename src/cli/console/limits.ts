/** Environments that one console shows. */
export const MAX_ENVIRONMENTS = 256;

/** How long an environment may take to answer before the console reports it as unreachable. */
export const CONNECT_TIMEOUT_MS = 20_000;

/** How long the file that leads a browser to the console stays: as long as the code in it is valid. */
export const REDIRECT_TTL_MS = 60_000;

/** How long `--link` waits for the server. */
export const LINK_TIMEOUT_MS = 10_000;

/** Largest answer to `--link`. */
export const MAX_LINK_ANSWER_BYTES = 16 * 1024;
