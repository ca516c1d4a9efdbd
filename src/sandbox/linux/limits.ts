/** Output in which a sandboxed program's failure is explained: the reference keeps no more. */
export const DENIAL_WINDOW_BYTES = 1024 * 1024;

/** Placeholders that one server holds at a time. Each is two open descriptors; a command needs three or four, shared by its like. */
export const MAX_PLACEHOLDERS = 1_024;

/** How often, and how far apart, a placeholder is tried that another server is just removing: that takes it microseconds. */
export const PLACEHOLDER_ATTEMPTS = 50;
export const PLACEHOLDER_RETRY_MS = 2;

/** How often a plan is made anew because the files changed before it could be carried out. */
export const PLAN_ATTEMPTS = 3;

/** How long the end of the server waits for starts that were given up; only a dead mount keeps one of them longer. */
export const ABANDONED_DEADLINE_MS = 1_000;

/** How long a sandbox that does not work is not tried again: somebody has to change the system before it can. */
export const PROBE_RETRY_MS = 5_000;

/** What an empty pipe takes at once whatever else the user has open: a page of the smallest size. */
export const SMALL_PIPE_BYTES = 4_096;

/** How long the first program in a sandbox may take to be there before it is asked whether bwrap works at all. */
export const UNPROVEN_START_MS = 5_000;

/**
 * How long bwrap may take to build a sandbox once it knows which; it takes ten milliseconds. Only one that hangs needs longer: on a
 * mount that does not answer, or because somebody has stopped it.
 */
export const BUILD_DEADLINE_MS = 20_000;

/** How long bwrap may take to show that it works; it takes ten milliseconds. */
export const PROBE_DEADLINE_MS = 10_000;

/** What is kept of what bwrap says when it does not work; its messages have one line. */
export const PROBE_COMPLAINT_BYTES = 2_048;

/** Sandboxes that are kept in reserve, one for each plan and kind of program: with and without an input in two workspaces, say. */
export const SANDBOXES_IN_RESERVE = 4;

/**
 * How long a sandbox is kept in reserve: about as long as an agent thinks before its next command. It holds half a megabyte of the
 * kernel's memory and no processor.
 */
export const RESERVE_IDLE_MS = 30_000;

/** How often building a plan ahead may come to nothing before it is given up: somebody exchanges files now and then, some machines always refuse. */
export const MAX_RESERVE_FAILURES = 3;
