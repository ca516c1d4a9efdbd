/** Largest file that one response contains: the reference's limit. */
export const READ_FILE_MAX_BYTES = 512 * 1024 * 1024;

/** Bytes read while the file's type is checked. A smaller file is then complete. Small enough for Node's buffer pool. */
export const READ_FILE_HEAD_BYTES = 4_000;

/**
 * The event loop itself closes a file up to this size after reading it from the page cache: handing the close to a thread costs
 * more than the whole read. Larger files are closed by a thread, because closing a file that was removed meanwhile frees its
 * blocks, which takes long for a large one.
 */
export const INLINE_CLOSE_MAX_BYTES = 2 * 1024 * 1024;

/** Open handles of one connection, and bytes of a handle id: the reference's limits. */
export const MAX_FILE_HANDLES = 128;
export const MAX_HANDLE_ID_BYTES = 32;

/** Bytes of one block read or written through a handle. */
export const MAX_BLOCK_BYTES = 1024 * 1024;

/** Entries of one directory listing. */
export const MAX_DIRECTORY_ENTRIES = 50_000;

/** The longest target of a symbolic link: PATH_MAX of Linux without its NUL. */
export const MAX_LINK_TARGET_BYTES = 4_095;

/**
 * Where a result of `fs/list` ends: after the directory with which it has this many entries, or names and targets of this size. A
 * client with a fast line reads the rest in the next request at hardly any cost.
 */
export const LIST_MAX_ENTRIES = 20_000;
export const LIST_MAX_BYTES = 4 * 1024 * 1024;

/**
 * A directory whose inode is up to this size is read in one call. It holds some ten thousand entries, which take the event loop a
 * few milliseconds. Larger directories are read in batches, at twice the cost.
 */
export const SMALL_DIRECTORY_BYTES = 512 * 1024;
export const DIRECTORY_BATCH_ENTRIES = 2_048;

/**
 * Concurrent calls on entries of one directory, and directories that a walk reads ahead. Enough to keep the disk busy while the
 * response is built, and few enough that a dead mount leaves most threads free. A walk that resolves links may use the product of
 * both.
 */
export const TREE_CALL_CONCURRENCY = 2;
export const WALK_READ_AHEAD = 8;

/** Limits of one walk and of its response. */
export const WALK_MAX_DEPTH = 64;
export const WALK_MAX_DIRECTORIES = 10_000;
export const WALK_MAX_ENTRIES = 50_000;
export const WALK_RESPONSE_BYTES = 4 * 1024 * 1024;

/** Bytes that an entry or error adds to a walk's response besides its text: the reference's number. */
export const WALK_ITEM_BYTES = 64;

/** Entries that a walk handles before it yields to the event loop: about two milliseconds. */
export const WALK_ENTRIES_PER_TURN = 2_048;

/** A walk with this many entries makes the next walk use a thread. Starting a thread takes longer than a smaller walk. */
export const LARGE_WALK_ENTRIES = 1_000;

/**
 * Threads that work on files for all connections, their idle time, their heap limit, and how many may crash before the server stops
 * using threads. Each takes some megabytes. More threads would only compete for the CPUs; jobs without a free thread use the
 * ordinary calls.
 */
export const MAX_FILE_THREADS = 2;
export const FILE_THREAD_IDLE_MS = 10_000;
export const FILE_THREAD_HEAP_MB = 64;
export const MAX_CRASHED_FILE_THREADS = 3;

/**
 * A thread reads files up to SMALL_FILE_BYTES and writes files up to SMALL_WRITE_BYTES in one job, where the ordinary way takes
 * three round trips. For larger files the copy to or from the thread costs more than that saves. MANY_SMALL_FILES within
 * MANY_SMALL_FILES_MS make it worth starting a thread.
 */
export const SMALL_FILE_BYTES = 16 * 1024;
export const SMALL_WRITE_BYTES = 128 * 1024;
export const MANY_SMALL_FILES = 64;
export const MANY_SMALL_FILES_MS = 1_000;

/**
 * Bytes that the event loop hashes before other requests get a turn, and the size up to which it hashes a file itself: 40 to 150
 * microseconds, as long as the round trip to a thread. Larger files are hashed by a thread in pieces of HASH_PIECE_BYTES, of which each
 * hash has two in memory.
 */
export const HASH_TURN_BYTES = 64 * 1024;
export const HASH_PIECE_BYTES = 512 * 1024;

/** Pieces that one file has in memory while it is hashed as it arrives: one is hashed while the next one is copied. */
export const HASHED_PIECES = 2;

/** Pieces of all files that are hashed as they arrive (16 MiB), and how many free ones are kept for the next file. */
export const MAX_HASH_PIECES = 32;
export const MAX_FREE_HASH_PIECES = 4;

/** The heap limit of the thread that hashes, and how long it stays without work. */
export const HASH_THREAD_HEAP_MB = 16;
export const HASH_THREAD_IDLE_MS = 10_000;

/** Duration of one request to hash files: the default and the maximum. A hash takes a second for one to two gigabytes. */
export const HASH_DEFAULT_TIMEOUT_MS = 600_000;
export const HASH_MAX_TIMEOUT_MS = 3_600_000;

/**
 * The largest file that is compared before a conditional replacement, and for how long: it may grow meanwhile, and the event loop hashes
 * it in small pieces.
 */
export const MAX_COMPARED_BYTES = 16 * 1024 * 1024;
export const COMPARE_TIMEOUT_MS = 10_000;

/** Bytes of a `file:` URI. A path of PATH_MAX, 4,096 bytes, has 12,288 when every byte is percent-encoded. */
export const MAX_URI_BYTES = 16 * 1024;

/** Longest path of a file that a thread writes: PATH_MAX of Linux. */
export const WRITE_SLOT_PATH_BYTES = 4_096;

/**
 * How long the event loop blocks for such a write, at most once per turn and only while the threads have no other job. Nearly all
 * writes finish within this time. After a wait that timed out, because of a slow disk or busy CPUs, the event loop does not wait
 * again for WRITE_WAIT_PAUSE_MS.
 */
export const WRITE_WAIT_MS = 0.15;
export const WRITE_WAIT_PAUSE_MS = 10;

/**
 * Number of directories of one depth from which a walk is split among threads: reading them takes ten times as long as distributing
 * them.
 */
export const WALK_SHARED_DIRECTORIES = 64;

/** Bytes that a copy reads at a time. Together with the number of concurrent copies it bounds their memory. */
export const COPY_BLOCK_BYTES = 512 * 1024;

/** Files from this size on are first cloned (FICLONE). For smaller files the attempt costs more than it saves. */
export const CLONE_MIN_BYTES = 1024 * 1024;

/**
 * Retry delays for a write to a FIFO that has no reader or is full. The first is short because a reader usually follows
 * immediately. The longest costs almost no CPU time and is still not noticeable.
 */
export const WRITE_RETRY_FIRST_MS = 1;
export const WRITE_RETRY_LONGEST_MS = 50;

/** Depth of a tree that is removed. Each level holds a descriptor. No path of 4,096 bytes, PATH_MAX of Linux, is deeper. */
export const REMOVE_MAX_DEPTH = 2_048;

/** How long operations wait for the creation of parent directories of a nearby path. Creation takes longer only if it hangs. */
export const PARENT_CREATION_WAIT_MS = 5_000;

/** Names that a removal reads before it removes them. Bounds the memory for a huge directory. */
export const REMOVE_NAMES_PER_BATCH = 10_000;

/** The largest file offset: off_t is a signed 64-bit number. */
export const MAX_FILE_OFFSET = 2n ** 63n - 1n;

/** Links followed to the file that is replaced: the limit of Linux (path_resolution(7)). */
export const MAX_LINKS_FOLLOWED = 40;

/**
 * Bytes of a file's name that its temporary file repeats. The whole name then fits file systems with names of at most 143 bytes.
 */
export const TEMPORARY_STEM_BYTES = 64;

/** A temporary file is stale after this time without a write, if its creator cannot be checked. No client pauses that long. */
export const TEMPORARY_MAX_IDLE_MS = 60 * 60 * 1000;

/** How long the part of a resumable replacement stays without a write: long enough to come back to a large file after a weekend. */
export const PART_MAX_IDLE_MS = 7 * 24 * 60 * 60 * 1000;

/** How long a resumable replacement waits for another one that uses its part. Closing the files of an ended connection takes milliseconds. */
export const PART_RELEASE_WAIT_MS = 2_000;

/** How often it looks whether another process has released the part. */
export const PART_CLAIM_POLL_MS = 50;

/**
 * How often one directory is swept for stale temporary files, and for how many directories the time is kept. A sweep reads all
 * names, 20 ms for 30,000 of them, too much for a client that replaces one file after another.
 */
export const TEMPORARY_SWEEP_INTERVAL_MS = 10_000;
export const SWEEP_CACHE_DIRECTORIES = 1_024;

/** Paths of one watch for missing files, and directories watched for them: the reference's limits. */
export const MAX_MISSING_PATHS = 64;
export const MAX_MISSING_DIRECTORIES = 64;

/** Watches of one connection. */
export const MAX_WATCHES = 32;
/**
 * Entries, and directories among them, that all watches of a connection may cover. An entry takes about 100 bytes, a directory 2
 * KB.
 */
export const WATCH_MAX_ENTRIES = 250_000;
export const WATCH_MAX_DIRECTORIES = 20_000;
/** How long changes are collected before they are reported. */
export const WATCH_DEFAULT_DEBOUNCE_MS = 50;
export const WATCH_MAX_DEBOUNCE_MS = 5_000;
/**
 * Steps of matching names with the globs of one watch, for one check of its tree: about a second. Thirty globs take a third of that for
 * the largest tree.
 */
export const WATCH_MAX_MATCH_STEPS = 300_000_000;
/** Changes in one notification: about 200 KB. */
export const WATCH_NOTIFICATION_CHANGES = 1_000;
/** Changes that wait for the client, and names that wait to be checked. Beyond either limit the client receives an overflow. */
export const WATCH_MAX_CHANGES = 50_000;
export const WATCH_MAX_PENDING_NAMES = 50_000;
/** How often a watch checks that its root still exists. Renaming an ancestor of the root causes no event. */
export const WATCH_ROOT_CHECK_MS = 2_000;
/** How long a watch that hit a limit waits before it tries again. */
export const WATCH_RETRY_MS = 10_000;
/**
 * Concurrent checks of one watch, and of all watches of a connection. Each check may hang on a dead mount and occupy a thread: one
 * dead mount must not stop a connection's other watches, and one connection must not occupy all threads.
 */
export const WATCH_CHECK_CONCURRENCY = 2;
export const WATCH_CHECKS_PER_CONNECTION = 6;
/** The default of the kernel's event queue length, used where /proc does not report it. */
export const INOTIFY_QUEUE_EVENTS = 16_384;

/** Matching lines of one search: the default and the maximum. */
export const SEARCH_DEFAULT_RESULTS = 1_000;
export const SEARCH_MAX_RESULTS = 10_000;

/** Duration of one search: the default and the maximum. */
export const SEARCH_DEFAULT_TIMEOUT_MS = 10_000;
export const SEARCH_MAX_TIMEOUT_MS = 60_000;

/** Files that a search names because it skipped them, or lines of them, for their size. A client can read these itself. */
export const SEARCH_INCOMPLETE_FILES = 32;

/** Texts and paths in the response to one search, as JSON. */
export const SEARCH_RESPONSE_BYTES = 4 * 1024 * 1024;

/** Concurrent searches; others wait. Each may use all cores, so that more of them would not be faster. */
export const SEARCH_CONCURRENCY = 4;

/** Characters of a matching line that are returned. Lines written by people are hardly ever longer. */
export const SEARCH_TEXT_LENGTH = 1_000;

/** Longest line that is searched. Minified files have longer lines, and each match would send the whole line to the server. */
export const SEARCH_MAX_LINE_BYTES = 1024 * 1024;

/** Longest line of ripgrep's output that is kept whole: JSON encodes a byte as at most six characters. */
export const SEARCH_MAX_OUTPUT_LINE_BYTES = 8 * SEARCH_MAX_LINE_BYTES;

/** How long the event loop handles the output of one search before other requests get a turn. The longest path takes a few milliseconds. */
export const SEARCH_TURN_MS = 5;

/** Bytes kept of ripgrep's stderr. The first messages say why it could not search. */
export const SEARCH_STDERR_BYTES = 8 * 1024;

/** Largest file that the builtin engine searches, because it reads whole files, and the heap limit of its thread. */
export const SEARCH_MAX_FILE_BYTES = 64 * 1024 * 1024;
export const SEARCH_THREAD_HEAP_MB = 256;

/** How many bytes the builtin engine checks for a NUL byte before it reads the rest of a file. */
export const SEARCH_BINARY_PROBE_BYTES = 8 * 1024;

/** Largest ignore file that is read. */
export const SEARCH_MAX_IGNORE_FILE_BYTES = 1024 * 1024;

/** Globs of one search or watch after brace expansion, and the length of one glob: PATH_MAX of Linux. */
export const MAX_GLOBS = 256;
export const MAX_GLOB_LENGTH = 4_096;

/**
 * Characters of all these globs, before and after brace expansion: 32 for each. A path is compared with 32 of them in one step, so that
 * the longest path takes a million steps.
 */
export const MAX_GLOB_CHARACTERS = 8 * 1024;

/** Steps of matching after which other requests get a turn: three to eight milliseconds. */
export const GLOB_STEPS_PER_TURN = 1_000_000;

/** Characters outside ASCII for which a set of globs keeps what it computed. */
export const GLOB_CACHED_CHARACTERS = 64;

/** Capability roots of one request, and how many are searched concurrently: the reference's numbers. */
export const MAX_DISCOVERY_ROOTS = 128;
export const DISCOVERY_ROOT_CONCURRENCY = 8;

/** Limits of the walk below one capability root: the reference's numbers. */
export const DISCOVERY_MAX_DEPTH = 6;
export const DISCOVERY_MAX_DIRECTORIES = 2_000;
export const DISCOVERY_MAX_ENTRIES = 20_000;

/** Bytes of one file of a capability root, and of all its files together: the reference's numbers. */
export const DISCOVERY_FILE_BYTES = 1024 * 1024;
export const DISCOVERY_ROOT_BYTES = 16 * 1024 * 1024;

/**
 * Bytes of one response to a discovery: of the files of all roots, or of the plugins and skills as JSON. Clients accept no message
 * above 64 MiB, and the server must not hold 128 full roots.
 */
export const DISCOVERY_ANSWER_BYTES = 64 * 1024 * 1024;

/** Bytes of the warnings of one root, and of a response about everything that is installed. */
export const DISCOVERY_WARNING_BYTES = 256 * 1024;

/**
 * YAML of a skill: nesting depth, characters, and tokens (a name, a mark, a space, an end of line). Front matter has a few dozen
 * tokens. The parser takes up to ten microseconds for each, and the event loop waits.
 */
export const MAX_YAML_DEPTH = 32;
export const MAX_YAML_LENGTH = 64 * 1024;
export const MAX_YAML_TOKENS = 4_096;

/** Characters and values of a YAML document after its aliases are replaced. Without aliases it has fewer than 70,000. */
export const MAX_YAML_EXPANDED_LENGTH = 2 * MAX_YAML_LENGTH;

/** Characters of an error about YAML. It may quote the text. */
export const MAX_YAML_ERROR_LENGTH = 256;

/** Nesting depth of the servers in a plugin's manifest: the reference's parser accepts no more. */
export const MAX_MANIFEST_DEPTH = 128;

/** Characters of a skill's name, alone and with the name of its plugin: the reference's numbers. */
export const MAX_SKILL_NAME_CHARACTERS = 64;
export const MAX_PREFIXED_NAME_CHARACTERS = 129;

/** Characters of a tool that a skill needs: of its type and transport, and of its other texts. The reference's numbers. */
export const MAX_TOOL_KIND_CHARACTERS = 64;
export const MAX_TOOL_TEXT_CHARACTERS = 1_024;
