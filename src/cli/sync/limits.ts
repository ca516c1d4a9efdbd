/** Files and directories of one side. Each takes about 200 bytes of memory. */
export const MAX_ENTRIES = 1_000_000;

/** Size of an ignore file. A person does not write a longer list. */
export const MAX_IGNORE_FILE_BYTES = 1024 * 1024;

/** Directories of one request to a server. Its answer has a limit of its own. */
export const LISTED_DIRECTORIES = 200;

/** Local directories that are read at a time, and system calls for each of them. */
export const LOCAL_DIRECTORIES = 4;
export const LOCAL_CALLS = 16;

/** Local files that are hashed at a time, and the block in which they are read. */
export const LOCAL_HASHES = 4;
export const LOCAL_BLOCK_BYTES = 1024 * 1024;

/**
 * Files that are copied at a time. A small file is one request in each direction, so it waits for answers most of the time. Each large
 * one has up to four blocks of 1 MiB in memory.
 */
export const SMALL_FILE_BYTES = 256 * 1024;
export const SMALL_FILES = 32;
export const LARGE_FILES = 3;

/** Other requests at a time: as many hide a round trip, and few enough for a server that other clients use. */
export const REQUESTS = 32;

/** Files whose hashes are compared in one step, and their bytes: a server hashes for at most an hour. */
export const COMPARED_FILES = 500;
export const COMPARED_BYTES = 4 * 1024 ** 3;
export const HASH_TIMEOUT_MS = 3_600_000;

/** How often a file that changes is copied before it counts as failed. */
export const COPY_ATTEMPTS = 3;

/** How often a request is repeated after a lost connection. */
export const REQUEST_RETRIES = 3;

/** Changes that wait, about 10 MB. Beyond that everything is compared. */
export const MAX_CHANGES = 50_000;

/** More changes than this are found faster by comparing everything. */
export const COMPARED_CHANGES = 1_000;
/** Changes that are compared at a time. */
export const CHANGE_COMPARISONS = 16;

/** How long the watchers collect changes: a program that saves a file changes it several times. */
export const WATCH_DEBOUNCE_MS = 50;

/** Globs of a watch, and their characters: fewer than servers accept. */
export const MAX_GLOBS = 200;
export const MAX_GLOB_CHARACTERS = 8_000;

/** Delays between attempts to connect again, from the first to the longest. */
export const RECONNECT_FIRST_MS = 250;
export const RECONNECT_MAX_MS = 10_000;

/** Paths that the line of a batch names, and failures of one pass that are printed for people. */
export const NAMED_PATHS = 3;
export const SHOWN_FAILURES = 20;
