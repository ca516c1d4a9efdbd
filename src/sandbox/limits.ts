/** Paths that one policy names, those protected by their names included. bwrap takes no more mounts than this in any case. */
export const MAX_POLICY_ENTRIES = 2_048;

/** Patterns of one policy. Each is matched against every file below its directory. */
export const MAX_DENY_GLOBS = 256;

/** Files that the patterns of one policy may deny: the reference's limit. */
export const MAX_GLOB_MATCHES = 8_192;

/** Directories that are read while looking for denied files. A start that needs more would take many seconds. */
export const MAX_GLOB_DIRECTORIES = 100_000;

/** Directories that are read at the same time: as many as the thread pool of Node works on. */
export const GLOB_DIRECTORIES_AT_ONCE = 4;

/** Symbolic links on the way to one path: the system's own limit. */
export const MAX_LINKS = 40;

/** Bytes of a `.git` file that are read; it holds one path. */
export const GIT_FILE_BYTES = 8 * 1024;

/** Arguments that bwrap takes, those of the command included: a constant of its source. */
export const BWRAP_MAX_ARGUMENTS = 9_000;

/** Of these, what a command and the caller's own mounts may need. */
export const BWRAP_SPARE_ARGUMENTS = 500;

/** Looks at the disk that are under way at the same time for one plan. More would only wait in Node's thread pool. */
export const PROBES_AT_ONCE = 32;

/** Looks that are answered from the system's memory in one turn of the event loop: a millisecond. Plans that are kept take a dozen. */
export const CACHED_LOOKS_PER_TURN = 128;

/** Plans that are kept for the next program under the same policy. An agent has a handful of policies. */
export const REMEMBERED_PLANS = 64;

/** Paths that a plan which is kept was made from. Most have a dozen; a larger plan takes megabytes and is made anew each time. */
export const REMEMBERED_LOOKS = 1_024;

/** How long `environment/info` waits to know whether sandboxes work; that takes a tenth of a second unless something hangs. */
export const SANDBOX_PROBE_WAIT_MS = 2_000;

/** Covers of a sandbox that is built ahead: they are left for when a program comes, half a millisecond each, and building it takes ten. */
export const MAX_LATE_COVERS = 4;
