/** Longest wait of `wait_process`, and its default. Clients of models give up after 60 s. */
export const MAX_WAIT_MS = 45_000;
export const DEFAULT_WAIT_MS = 30_000;

/** Limit of a whole call after its approval, so that it answers before the client of the model gives up. */
export const CALL_LIMIT_MS = 55_000;

/** Limit of one request to a server. */
export const REQUEST_TIMEOUT_MS = 20_000;

/** Shortest limit of a request in a call that asks for a shorter wait. */
export const MIN_REQUEST_TIMEOUT_MS = 2_000;

/** How often a waiting call reports its progress. */
export const PROGRESS_INTERVAL_MS = 1_000;

/** Calls that run concurrently, and calls that wait for them. Each may hold a few MiB of output or of a file. */
export const MAX_CONCURRENT_CALLS = 64;
export const MAX_WAITING_CALLS = 256;

/** Output that one call keeps, half from its beginning and half from its end. */
export const OUTPUT_WINDOW_BYTES = 1024 * 1024;

/** What a server keeps of each output stream, unless `retainedOutputBytesPerProcess` says otherwise. */
export const RETAINED_BYTES = 1024 * 1024;

/** Largest chunk of output. */
export const MAX_CHUNK_BYTES = 1024 * 1024;

/** Processes whose read position is remembered between calls. */
export const MAX_POSITIONS = 1_000;

/** Longest unfinished escape sequence that waits for its rest in the next call. */
export const MAX_HELD_BYTES = 256;

/** How often `wait_process` asks for the ports of a process. */
export const PORT_POLL_MS = 300;

/** How long `kill_process` waits for the end, and how long a program may take to end by itself before it is killed. */
export const KILL_WAIT_MS = 5_000;
export const KILL_GRACE_MS = 2_000;

/** Processes that `list_processes` returns, and the characters of each command. */
export const MAX_LISTED_PROCESSES = 100;
export const MAX_COMMAND_CHARACTERS = 200;

/** Characters of one line that `read_file` returns, and how much of a file it looks at. */
export const MAX_LINE_CHARACTERS = 2_000;
export const MAX_SCANNED_BYTES = 64 * 1024 * 1024;

/** Largest content of `write_file`, and largest file of `edit_file`, before and after the edit. */
export const MAX_WRITTEN_BYTES = 16 * 1024 * 1024;
export const MAX_EDITED_BYTES = 16 * 1024 * 1024;

/** Entries that `list_directory` returns by default and at most, and how many it looks at. */
export const DEFAULT_LISTED_ENTRIES = 200;
export const MAX_LISTED_ENTRIES = 2_000;
export const MAX_EXAMINED_ENTRIES = 20_000;
export const MAX_LISTED_DEPTH = 8;

/** Results that `search_files` returns by default and at most; its time; and what a search for names looks at. */
export const DEFAULT_SEARCH_RESULTS = 100;
export const MAX_SEARCH_RESULTS = 1_000;
export const SEARCH_TIMEOUT_MS = 20_000;
export const MAX_SEARCHED_ENTRIES = 200_000;
export const MAX_MATCH_CHARACTERS = 500;

/** Largest content of a resource. */
export const MAX_RESOURCE_BYTES = 8 * 1024 * 1024;

/** Roots of an environment whose targets are remembered, so that a change is noticed. */
export const MAX_PINNED_ROOTS = 1_000;
