/** How long a private server stays without connections, sessions and processes. */
export const DEFAULT_IDLE_TIMEOUT = '10m';
/** How long a command waits for a private server: far longer than a start takes on a busy machine. */
export const START_TIMEOUT_MS = 30_000;
/** The first pause between two attempts to connect to a server that starts; each further one is longer. */
export const FIRST_PAUSE_MS = 10;
export const MAX_PAUSE_MS = 100;
/** A start that takes longer has failed, even if its process is alive: its pid may be that of another program. */
export const START_CLAIM_MS = 10_000;
/** How long a command has after it claimed the start until it has written the pid of the server. */
export const START_SPAWN_MS = 1_000;
/** How long a new server waits for one that ends: longer than the grace period of programs. */
export const LOCK_TIMEOUT_MS = 20_000;
export const LOCK_RETRY_MS = 20;
/** How often an idle server looks whether another version wants to replace it. */
export const REPLACE_CHECK_MS = 1_000;
