/** Bytes asked for in one read of a child's output: the default capacity of a Linux pipe, so one read can empty it. */
export const OUTPUT_READ_BYTES = 64 * 1024;

/** How long a directory or program that was found in order is not asked about again; a dead mount can block the server that long. */
export const LAUNCH_CACHE_MS = 1_000;

/** Pairs of directory and program that are remembered. */
export const LAUNCH_CACHE_ENTRIES = 256;

/** Full reads of one stream in a row before other streams get their turn: a quarter of a megabyte. */
export const FULL_READS_PER_TURN = 4;

/** Capacity given to the pipe of a program that fills it faster than it is read; fewer switches between the two. */
export const FLOODED_PIPE_BYTES = 1024 * 1024;

/** What Linux has for the output of a terminal is full at this size. */
export const FULL_TERMINAL_BYTES = 4_095;

/** How often a terminal is asked whether it has been refilled before it is read: some dozens of microseconds, and half of that suffices. */
export const TERMINAL_REFILL_LOOKS = 150;

/** A piece up to this size is small: its fixed cost outweighs that of its bytes. */
export const SMALL_READ_BYTES = 16 * 1024;

/** Small pieces closer together than this belong to one burst. */
export const FLOOD_GAP_MS = 3;

/** Small pieces of one burst that are passed on at once; interactive programs stay below. */
export const FLOOD_SMALL_READS = 8;

/** How long a burst is left to gather. */
export const FLOOD_REST_MS = 1;

/** First wait before writing again to a terminal whose input queue is full; short, because a reading child frees it at once. */
export const TERMINAL_RETRY_MIN_MS = 1;

/** Longest wait between attempts to write to a terminal whose child does not read: 20 wake-ups per second at most. */
export const TERMINAL_RETRY_MAX_MS = 50;

/** How long a tree that was sent SIGKILL may take to disappear. Only a process stuck inside the kernel needs longer. */
export const KILL_TREE_DEADLINE_MS = 5_000;

/** Wait before the first sweep for a tree: its group, killed at once, is usually gone by then. Doubled for each further sweep. */
export const SWEEP_RETRY_MIN_MS = 1;

/**
 * Looks, a millisecond apart, at what is left in a sandbox whose program has ended. Usually the first finds nothing; what is left
 * needs a few milliseconds to be killed by the system, more on a busy one. After that it is swept like any other tree.
 */
export const SANDBOX_EXIT_CHECKS = 100;

/**
 * How often a program is put into a sandbox before the last refusal is its end. Others exchange files in the few milliseconds that
 * it takes only now and then; four times in a row means that it is no accident.
 */
export const SANDBOXED_START_ATTEMPTS = 5;

/** Longest wait between two sweeps for the same tree. */
export const SWEEP_RETRY_MAX_MS = 50;

/** Sweeps rest this many times as long as the last one took, so that they use a fifth of one core at most. */
export const SWEEP_REST_FACTOR = 4;

/** Rounds of the watchdog after the server's death, 50 ms apart: ten seconds, after which what is left cannot be killed. */
export const WATCHDOG_ROUNDS = 200;

/** How long the watchdog may take to leave after it was dismissed before it is killed. */
export const WATCHDOG_EXIT_DEADLINE_MS = 1_000;
/** Processes of one caller, and how long a closed one stays readable, where nothing else is asked for: the reference's numbers. */
export const DEFAULT_MAX_PROCESSES = 1024;
export const DEFAULT_CLOSED_RETENTION_MS = 30_000;

/** Output kept of one process where nothing else is asked for: the reference's numbers, and a head for snapshots. */
export const DEFAULT_RETAINED_BYTES = 1024 * 1024;
export const DEFAULT_RETAINED_CHUNKS = 50_000;
export const DEFAULT_HEAD_BYTES = 64 * 1024;

/** Largest piece of output in one event: what one read from a pipe yields at most. */
export const MAX_CHUNK_BYTES = 64 * 1024;

/** Output is not cut smaller than this, even where less is retained. */
export const MIN_CHUNK_BYTES = 1024;

/** How often the end of a killed process is waited for, OUTPUT_AFTER_KILL_MS each, before it is given up. */
export const CLOSE_AFTER_KILL_ROUNDS = 5;

/** Longest time a timer can be set to; longer waits are without limit. */
export const MAX_TIMER_MS = 2 ** 31 - 1;

/** How long output is still awaited once everything that could have written it has been killed. */
export const OUTPUT_AFTER_KILL_MS = 1_000;

/** How long a terminate lets a start that is under way finish before it cancels it. */
export const START_BEFORE_TERMINATE_MS = 250;

/** Writes to stdin that are acknowledged before the program has read them. */
export const STDIN_ACCEPTED_CHUNKS = 128;

/** Writes that may wait for the program; further ones are refused. */
export const STDIN_QUEUE_MAX_CHUNKS = 4096;

/** Bytes that may wait for the program; further ones are refused. */
export const STDIN_QUEUE_MAX_BYTES = 64 * 1024 * 1024;

/**
 * Characters of names times characters of globs that one environment policy may cost: a fraction of a second. Ordinary policies
 * need a thousandth of it.
 */
export const MAX_GLOB_WORK = 100_000_000;

/** Write ids remembered per process, so that a retry after a lost connection is harmless. */
export const MAX_REMEMBERED_WRITE_IDS = 4096;

/** Period over which the share of a processor is measured: the kernel's own default. */
export const CGROUP_CPU_PERIOD_US = 100_000;

/** How often, and how far apart, the removal of a control group is tried: killed members leave it within moments. */
export const CGROUP_REMOVE_ATTEMPTS = 20;
export const CGROUP_REMOVE_RETRY_MS = 100;

/** Control groups that something had kept from being removed and that are tried again with each limited start: a few microseconds each. */
export const CGROUP_LATE_REMOVALS = 16;

/** How often, and how far apart, the removal of all control groups is tried at the end: a second, when everything has been killed. */
export const CGROUP_CLOSE_ATTEMPTS = 50;
export const CGROUP_CLOSE_RETRY_MS = 20;

/**
 * How long a sandboxed program that failed is not yet reported as exited while its output is still open: what it said decides whether
 * the sandbox is why. Whatever keeps the output open longer is something it left behind.
 */
export const DENIAL_OUTPUT_WAIT_MS = 50;

/** How long a process that is being started may take to send the descriptors it was asked for. */
export const DESCRIPTOR_DEADLINE_MS = 30_000;

/** Longest pause between two looks for them. A connection that a program makes meanwhile waits in the kernel. */
export const DESCRIPTOR_POLL_MAX_MS = 16;

/** How long the exit of a sandboxed program waits for what was made for it to be cleared away; a dead mount may keep that for ever. */
export const RELEASE_DEADLINE_MS = 5_000;
