/** Bytes asked for in one read of a child's output. Only the pipe of a program that floods it holds so many. */
export const OUTPUT_READ_BYTES = 128 * 1024;

/** How long a checked directory or program is not checked again. A mount that dies meanwhile can block the server once. */
export const LAUNCH_CACHE_MS = 1_000;

/** Pairs of directory and program in the launch cache. */
export const LAUNCH_CACHE_ENTRIES = 256;

/** A read of this much has emptied a full pipe: the default capacity of a Linux pipe. */
export const FULL_READ_BYTES = 64 * 1024;

/** Bytes that full reads of one stream in a row may yield before other streams are read. */
export const FULL_READS_PER_TURN_BYTES = 256 * 1024;

/** A read whose delivery takes longer than this is the last of its stream before other streams are read. */
export const SLOW_DELIVERY_MS = 1;

/** Capacity of the pipe of a program that fills it faster than the server reads it; saves context switches. */
export const FLOODED_PIPE_BYTES = 256 * 1024;

/**
 * Pipes that have this capacity at a time: a quarter of what Linux allows a user without privileges (64 MiB, pipe(7)). At that limit
 * every new pipe of the user, in any program, would hold only 8 KiB.
 */
export const MAX_WIDENED_PIPES = 64;

/** The output buffer of a Linux terminal is full at this size. */
export const FULL_TERMINAL_BYTES = 4_095;

/** How often the server polls whether the kernel has refilled a terminal before it reads again. Takes some dozens of microseconds; half of that suffices. */
export const TERMINAL_REFILL_POLLS = 150;

/** Bytes of a stream of child_process that are numbered before the exit: more than its socket pair holds by default. */
export const DRAINED_STREAM_BYTES = 256 * 1024;

/** Up to this size the fixed cost of a read is greater than that of its bytes. */
export const SMALL_READ_BYTES = 16 * 1024;

/** Small reads closer together than this belong to one burst. */
export const FLOOD_GAP_MS = 3;

/** Small reads of one burst that are delivered immediately. Interactive programs stay below this. */
export const FLOOD_SMALL_READS = 8;

/** How long the server lets the output of a burst collect before it reads again. */
export const FLOOD_PAUSE_MS = 1;

/** First wait before writing again to a terminal whose input queue is full. Short, because a child that reads frees space quickly. */
export const TERMINAL_RETRY_MIN_MS = 1;

/** Longest wait between attempts to write to a terminal whose child does not read: 20 wake-ups per second at most. */
export const TERMINAL_RETRY_MAX_MS = 50;

/** How long a process tree may take to disappear after SIGKILL. Only a process stuck inside the kernel needs longer. */
export const KILL_TREE_DEADLINE_MS = 5_000;

/** Wait before the first sweep for a tree, whose group usually is gone by then. Doubles with each further sweep. */
export const SWEEP_RETRY_MIN_MS = 1;

/**
 * How often the server checks, a millisecond apart, what is left in a sandbox whose program has ended. Usually the first check
 * finds nothing. The kernel needs a few milliseconds to kill what is left, more on a busy system. After the last check the
 * server sweeps the tree like any other.
 */
export const SANDBOX_EXIT_CHECKS = 100;

/**
 * How often the server builds a sandbox for one program before the last failure is reported. Building takes a few milliseconds,
 * in which other processes rarely replace files. Four failures in a row are not chance.
 */
export const SANDBOXED_START_ATTEMPTS = 5;

/** Longest wait between two sweeps for the same tree. */
export const SWEEP_RETRY_MAX_MS = 50;

/** A sweep pauses this many times as long as the last one took, so that sweeps use at most a fifth of one core. */
export const SWEEP_REST_FACTOR = 4;

/** Rounds of the watchdog after the server's death, 50 ms apart: ten seconds. What is left then cannot be killed. */
export const WATCHDOG_ROUNDS = 200;

/**
 * Shells in which the watchdog removes entries at the same time, and entries for each. The programs that lock and remove an entry mostly
 * wait for the CPU, so on a busy machine eight shells take a seventh of the time of one.
 */
export const REMOVAL_SHELLS = 8;
export const REMOVALS_PER_SHELL = 32;

/** Bytes for one entry in the list of removals: a page, which holds a path of 4,094 bytes. bwrap mounts at no longer one. */
export const REMOVAL_SLOT_BYTES = 4_096;

/** How long the watchdog may take to exit after it was dismissed before the server kills it. */
export const WATCHDOG_EXIT_DEADLINE_MS = 1_000;
/** Default number of processes of one caller, and how long a closed one stays readable: the reference's numbers. */
export const DEFAULT_MAX_PROCESSES = 1024;
export const DEFAULT_CLOSED_RETENTION_MS = 30_000;

/** Memory that a closed process takes besides its output, its write ids and its command line. */
export const CLOSED_PROCESS_BYTES = 10 * 1024;

/** Processes dropped while they waited for a client that a session remembers, to report them. A record has the id and some numbers. */
export const DROPPED_PROCESS_RECORDS = 64;

/** Default retention of each output stream: the reference's numbers for a whole process, and a head for snapshots. */
export const DEFAULT_RETAINED_BYTES = 1024 * 1024;
export const DEFAULT_RETAINED_CHUNKS = 50_000;
export const DEFAULT_HEAD_BYTES = 64 * 1024;

/** Largest chunk of output in one event for clients that get it as text. Others get what one read yields. */
export const MAX_TEXT_CHUNK_BYTES = 64 * 1024;

/** How often the server waits OUTPUT_AFTER_KILL_MS for a killed process to close before it gives up. */
export const CLOSE_AFTER_KILL_ROUNDS = 5;

/** Longest time that a timer can be set to. Longer waits have no limit. */
export const MAX_TIMER_MS = 2 ** 31 - 1;

/** How long the server waits for more output once everything that could write it has been killed. */
export const OUTPUT_AFTER_KILL_MS = 1_000;

/** How long a terminate waits for a start in progress before it cancels it. */
export const START_BEFORE_TERMINATE_MS = 250;

/** Writes to stdin that are acknowledged before the program has read them. */
export const STDIN_ACCEPTED_CHUNKS = 128;

/** Writes that may wait for the program; further ones are rejected. */
export const STDIN_QUEUE_MAX_CHUNKS = 4096;

/** Bytes that may wait for the program; further ones are rejected. */
export const STDIN_QUEUE_MAX_BYTES = 64 * 1024 * 1024;

/** Characters of a program's arguments that a listing shows, and that are kept for it. Two megabytes of them can be started. */
export const LISTED_ARGUMENT_CHARACTERS = 4096;

/**
 * Upper bound for the characters of names times the characters of globs of one environment policy: some dozens of milliseconds.
 * Ordinary policies need a hundredth of it.
 */
export const MAX_GLOB_WORK = 10_000_000;

/** Write ids kept per process, so that a client can safely repeat a write after a lost connection. */
export const MAX_RECENT_WRITE_IDS = 4096;

/** Period over which the kernel measures the CPU share: its own default. */
export const CGROUP_CPU_PERIOD_US = 100_000;

/** How often and at which interval the server tries to remove a control group. Killed members disappear quickly. */
export const CGROUP_REMOVE_ATTEMPTS = 20;
export const CGROUP_REMOVE_RETRY_MS = 100;

/** Control groups that could not be removed and are tried again with each limited start: a few microseconds each. */
export const CGROUP_LATE_REMOVALS = 16;

/** How often and at which interval the server tries to remove all control groups on shutdown: one second, after everything is killed. */
export const CGROUP_CLOSE_ATTEMPTS = 50;
export const CGROUP_CLOSE_RETRY_MS = 20;

/**
 * How long the exit event of a failed sandboxed program waits while its output is still open. The output decides whether the
 * sandbox caused the failure. What keeps the output open longer is a process that the program left behind.
 */
export const DENIAL_OUTPUT_WAIT_MS = 50;

/** How long a process in its start may take to send the requested descriptors. */
export const DESCRIPTOR_DEADLINE_MS = 30_000;

/** Longest wait between two polls for descriptors. Connections of the program wait in the kernel meanwhile. */
export const DESCRIPTOR_POLL_MAX_MS = 16;

/** How long the exit event of a sandboxed program waits for the cleanup, which a dead mount can block without end. */
export const RELEASE_DEADLINE_MS = 5_000;

/** How long a scan for listening ports works in one turn of the event loop. */
export const PORT_SCAN_SLICE_MS = 1;

/** Bytes per read of a table of sockets; the kernel returns a page at a time. */
export const PORT_TABLE_READ_BYTES = 16 * 1024;

/** Ancestors of a process that a scan for ports follows where processes have no tags. */
export const PORT_SCAN_PARENTS = 64;
