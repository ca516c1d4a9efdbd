/** Output in which a sandbox denial is searched for. The reference keeps no more. */
export const DENIAL_WINDOW_BYTES = 1024 * 1024;

/** Placeholders of one server. A command needs three or four; commands in one workspace share them. */
export const MAX_PLACEHOLDERS = 1_024;

/** Open descriptors of a placeholder: the entry, and its directory unless it shares that with others. */
export const DESCRIPTORS_PER_PLACEHOLDER = 2;

/** Attempts, and the delay between them, for a placeholder that another server is removing. Removing takes microseconds. */
export const PLACEHOLDER_ATTEMPTS = 50;
export const PLACEHOLDER_RETRY_MS = 2;

/** How many plans are made for one start when files change in between. */
export const PLAN_ATTEMPTS = 3;

/** How long the shutdown waits for cleanups of cancelled starts. Only a dead mount takes longer. */
export const ABANDONED_DEADLINE_MS = 1_000;

/** How long a failed probe of bwrap is cached. An administrator has to change the system before it can succeed. */
export const PROBE_RETRY_MS = 5_000;

/** What an empty pipe always takes in one write, even at the user's pipe limit: the smallest page size. */
export const SMALL_PIPE_BYTES = 4_096;

/** How long the first sandboxed program may take to start before bwrap is probed. */
export const UNVERIFIED_START_MS = 5_000;

/** How long bwrap may take to build a sandbox. It takes ten milliseconds, unless a mount does not answer or bwrap was stopped. */
export const BUILD_DEADLINE_MS = 20_000;

/** How long the probe of bwrap may take. It takes ten milliseconds. */
export const PROBE_DEADLINE_MS = 10_000;

/** How much output of a failed probe is kept. bwrap's messages have one line. */
export const PROBE_OUTPUT_BYTES = 2_048;

/** Pre-built sandboxes, one for each plan and pool key. Four are enough for two workspaces, with and without stdin. */
export const MAX_POOLED_SANDBOXES = 4;

/** Descriptors of a pre-built sandbox: three streams, the report pipe, the launcher, and the pipe for instructions. */
export const DESCRIPTORS_PER_POOLED_SANDBOX = 6;

/**
 * How long an unused pre-built sandbox is kept: about as long as an agent thinks before its next command. It costs half a megabyte of
 * kernel memory and no CPU time.
 */
export const POOLED_SANDBOX_IDLE_MS = 30_000;

/** How many pre-built sandboxes of a plan may fail in a row. Files are replaced now and then; some machines always refuse. */
export const MAX_PREBUILD_FAILURES = 3;
