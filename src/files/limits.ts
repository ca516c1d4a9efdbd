/** Largest file that is read in one answer: the reference's limit. */
export const READ_FILE_MAX_BYTES = 512 * 1024 * 1024;

/** Bytes that are read while a file is being looked at: a small file is complete then. Small enough for Node's shared memory pool. */
export const READ_FILE_HEAD_BYTES = 4_000;

/**
 * A file up to this size that was read from memory is closed by the event loop itself: if it was removed meanwhile the close frees its
 * blocks, which takes a while for a large one. Handing it to a thread costs more than all the rest of such a read.
 */
export const INLINE_CLOSE_MAX_BYTES = 2 * 1024 * 1024;

/** Open handles of one connection, and the length of their names: the reference's limits. */
export const MAX_FILE_HANDLES = 128;
export const MAX_HANDLE_ID_BYTES = 32;

/** Bytes in one block read or written through a handle. */
export const MAX_BLOCK_BYTES = 1024 * 1024;

/** Entries of one directory listing. */
export const MAX_DIRECTORY_ENTRIES = 50_000;

/**
 * A directory up to this size is read in one go: it holds some ten thousand entries, which the event loop takes in a few
 * milliseconds. Larger ones come in batches of so many entries, at twice the cost.
 */
export const SMALL_DIRECTORY_BYTES = 512 * 1024;
export const DIRECTORY_BATCH_ENTRIES = 2_048;

/**
 * Entries of one directory that an operation on a tree works on at once, and directories that a walk reads ahead: enough to keep the
 * disk busy while the answer is built, and few enough that one which hangs on a dead mount leaves most threads to others. A walk that
 * resolves links may hold the product of both.
 */
export const TREE_CALL_CONCURRENCY = 2;
export const WALK_READ_AHEAD = 8;

/** What one walk may look at, and how large its answer may grow. */
export const WALK_MAX_DEPTH = 64;
export const WALK_MAX_DIRECTORIES = 10_000;
export const WALK_MAX_ENTRIES = 50_000;
export const WALK_RESPONSE_BYTES = 4 * 1024 * 1024;

/** What an entry or error takes of a walk's answer besides its texts: the reference's number. */
export const WALK_ITEM_BYTES = 64;

/** Entries that a walk handles before it lets the event loop go on: about two milliseconds. */
export const WALK_ENTRIES_PER_TURN = 2_048;

/** Entries of a walk from which on the next one gets a thread: making one takes longer than a smaller walk. */
export const LARGE_WALK_ENTRIES = 1_000;

/**
 * Threads that work on files for all connections, how long one is kept that has nothing to do, what its heap may take, and how many
 * may break before the server does without. Each takes some megabytes; more of them would only compete for the processors, and what
 * finds none free goes the ordinary way.
 */
export const MAX_FILE_THREADS = 2;
export const FILE_THREAD_IDLE_MS = 10_000;
export const FILE_THREAD_HEAP_MB = 64;
export const MAX_BROKEN_FILE_THREADS = 3;

/**
 * A file up to this size is read, and one up to that size written, by such a thread, in one go, where the ordinary way takes three:
 * copying more to the thread or back takes longer than that saves. So many of them within a second are worth a thread.
 */
export const SMALL_FILE_BYTES = 16 * 1024;
export const SMALL_WRITE_BYTES = 128 * 1024;
export const MANY_SMALL_FILES = 64;
export const MANY_SMALL_FILES_MS = 1_000;

/** Longest path of a file that such a thread writes; the system takes none that is longer. */
export const WRITE_SLOT_PATH_BYTES = 4_096;

/**
 * How long the event loop waits for such a write, once per turn and only while nothing else is asked of the threads: nearly all
 * are done by then, and nobody notices so little. After a wait in vain, because of a slow disk or busy processors, it does without for a while.
 */
export const WRITE_WAIT_MS = 0.15;
export const WRITE_WAIT_PAUSE_MS = 10;

/** Directories of one depth that are worth dividing among threads: reading them takes ten times what handing them out does. */
export const WALK_SHARED_DIRECTORIES = 64;

/** Bytes of a file that are copied at a time; together with the number of copies it bounds the memory that copying takes. */
export const COPY_BLOCK_BYTES = 512 * 1024;

/** From this size on a copy first tries to share the blocks of the file. For smaller files the attempt costs more than it saves. */
export const CLONE_MIN_BYTES = 1024 * 1024;

/**
 * Pauses between attempts to write to a FIFO that nobody reads or that is full. Short at first, because a reader usually comes at
 * once; the longest costs next to nothing and is still no delay that people notice.
 */
export const WRITE_RETRY_FIRST_MS = 1;
export const WRITE_RETRY_LONGEST_MS = 50;

/** Levels of a tree that is removed. Each holds a descriptor; no path of 4,096 bytes, the system's limit, has more. */
export const REMOVE_MAX_DEPTH = 2_048;

/** How long operations wait for directories that are made above a path near theirs. Longer than that takes, unless it hangs. */
export const PARENT_CREATION_WAIT_MS = 2_000;

/** Names of one directory that are gathered before they are removed, so that a huge directory does not fill the memory. */
export const REMOVE_NAMES_PER_BATCH = 10_000;

/** End of the last byte that the system can address in a file. */
export const MAX_FILE_OFFSET = 2n ** 63n - 1n;

/** Links followed to the file that is replaced: Linux's own limit. */
export const MAX_LINKS_FOLLOWED = 40;

/** Bytes of a file's name that its temporary file shows; the whole then fits file systems with names of only 143 bytes. */
export const TEMPORARY_STEM_BYTES = 64;

/** How long a temporary file may go unwritten when nobody can tell whether its creator lives. No client pauses for so long. */
export const TEMPORARY_MAX_IDLE_MS = 60 * 60 * 1000;

/**
 * How often one directory is searched for leftovers, and for how many directories that is remembered. A search reads all names,
 * 20 ms for 30,000 of them, which a client that replaces one file after another should not pay each time.
 */
export const TEMPORARY_SWEEP_INTERVAL_MS = 10_000;
export const SWEEP_CACHE_DIRECTORIES = 1_024;

/** Paths of one watch for missing files, and directories that it may hold watched for them: the reference's limits. */
export const MAX_MISSING_PATHS = 64;
export const MAX_MISSING_DIRECTORIES = 64;

/** Watches of one connection. */
export const MAX_WATCHES = 32;
/** Entries, and directories among them, that all watches of a connection may know: about 100 bytes and 2 KB of memory each. */
export const WATCH_MAX_ENTRIES = 250_000;
export const WATCH_MAX_DIRECTORIES = 20_000;
/** How long changes gather before they are told. */
export const WATCH_DEFAULT_DEBOUNCE_MS = 50;
export const WATCH_MAX_DEBOUNCE_MS = 5_000;
/** Changes in one notification: about 200 KB. */
export const WATCH_NOTIFICATION_CHANGES = 1_000;
/** Changes that wait for a client, and names that wait to be looked at: beyond either the client is told to look for itself. */
export const WATCH_MAX_CHANGES = 50_000;
export const WATCH_MAX_PENDING_NAMES = 50_000;
/** How often a watch makes sure that its root is still where it was; a renamed ancestor gives no other sign. */
export const WATCH_ROOT_CHECK_MS = 2_000;
/** How long a watch that ran into a limit waits before it tries again. */
export const WATCH_RETRY_MS = 10_000;
/**
 * What one watch, and all watches of a connection, look at together. Each look may hang on a dead mount and hold a thread: one such
 * mount must not stop a connection's other watches, nor a connection take all threads.
 */
export const WATCH_CHECK_CONCURRENCY = 2;
export const WATCH_CHECKS_PER_CONNECTION = 6;
/** The kernel's own bound on undelivered events, where it cannot be read from the system. */
export const INOTIFY_QUEUE_EVENTS = 16_384;

/** Matching lines of one search: what a client gets that does not say, and the most it may ask for. */
export const SEARCH_DEFAULT_RESULTS = 1_000;
export const SEARCH_MAX_RESULTS = 10_000;

/** How long one search may take: what a client gets that does not say, and the most it may ask for. */
export const SEARCH_DEFAULT_TIMEOUT_MS = 10_000;
export const SEARCH_MAX_TIMEOUT_MS = 60_000;

/** Texts and paths in one answer of a search, as JSON. */
export const SEARCH_RESPONSE_BYTES = 4 * 1024 * 1024;

/** Searches that run at the same time; others wait. Each may keep all cores busy, so that more of them would only be slower. */
export const SEARCH_CONCURRENCY = 4;

/** Characters of a matching line that are told. Longer lines are hardly written by people. */
export const SEARCH_TEXT_LENGTH = 1_000;

/** Longest line that is searched. Minified files have longer ones, and each match would carry the whole line to the server. */
export const SEARCH_MAX_LINE_BYTES = 1024 * 1024;

/** Longest line of ripgrep's output that is kept whole: JSON spells a byte with six characters at worst. */
export const SEARCH_MAX_OUTPUT_LINE_BYTES = 8 * SEARCH_MAX_LINE_BYTES;

/** What is kept of ripgrep's complaints; the first ones tell why it did not start to search. */
export const SEARCH_STDERR_BYTES = 8 * 1024;

/** Largest file that the builtin engine searches, because it reads files whole, and what its thread may take for itself. */
export const SEARCH_MAX_FILE_BYTES = 64 * 1024 * 1024;
export const SEARCH_THREAD_HEAP_MB = 256;

/** How far into a file the builtin engine looks for a NUL byte before it reads the rest. */
export const SEARCH_BINARY_PROBE_BYTES = 8 * 1024;

/** Largest ignore file that is read. */
export const SEARCH_MAX_IGNORE_FILE_BYTES = 1024 * 1024;

/** Globs of one search after braces are spelled out, and the length of one: no path of the system is longer. */
export const MAX_GLOBS = 256;
export const MAX_GLOB_LENGTH = 4_096;

/** Capability roots of one request, and how many are looked at side by side: the reference's numbers. */
export const MAX_DISCOVERY_ROOTS = 128;
export const DISCOVERY_ROOT_CONCURRENCY = 8;

/** How far the search below one capability root goes: the reference's numbers. */
export const DISCOVERY_MAX_DEPTH = 6;
export const DISCOVERY_MAX_DIRECTORIES = 2_000;
export const DISCOVERY_MAX_ENTRIES = 20_000;

/** Bytes of one file of a capability root, and of all its files together: the reference's numbers. */
export const DISCOVERY_FILE_BYTES = 1024 * 1024;
export const DISCOVERY_ROOT_BYTES = 16 * 1024 * 1024;

/** Bytes of the files of all roots of a request. Clients take no message above 64 MiB, and a server must not hold 128 full roots. */
export const DISCOVERY_ANSWER_BYTES = 64 * 1024 * 1024;

/** YAML of a skill: nested collections, and characters. Front matter has some hundred; the parser takes about a second for a megabyte. */
export const MAX_YAML_DEPTH = 32;
export const MAX_YAML_LENGTH = 64 * 1024;

/** Characters of a skill's name: the reference's number. */
export const MAX_SKILL_NAME_CHARACTERS = 64;
