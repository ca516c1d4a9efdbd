/** Paths in one policy, including protected names. bwrap takes no more mounts than this. */
export const MAX_POLICY_ENTRIES = 2_048;

/** Deny globs in one policy. Each is matched against every file below its directory. */
export const MAX_DENY_GLOBS = 256;

/**
 * Steps of matching for one character of a path with all globs of a policy; one takes a step per 32 of its characters. The longest path
 * then takes ten milliseconds.
 */
export const MAX_DENY_GLOB_STEPS = 1_024;

/** Steps of matching for one start: a few seconds, in turns with other requests. A million files and a hundred globs take a fraction. */
export const MAX_DENY_MATCH_STEPS = 1_000_000_000;

/** Files that the globs of one policy may deny. The limit of the reference. */
export const MAX_GLOB_MATCHES = 8_192;

/** Directories that are scanned for denied files. A start that needs more would take many seconds. */
export const MAX_GLOB_DIRECTORIES = 100_000;

/** Directories that are scanned concurrently: the size of Node's thread pool. */
export const GLOB_CONCURRENCY = 4;

/** Symbolic links in one path. The limit of the kernel. */
export const MAX_LINKS = 40;

/** Bytes of a `.git` file that are read. It holds one path. */
export const GIT_FILE_BYTES = 8 * 1024;

/** Arguments that bwrap takes, including those of the command: a constant in its source. */
export const BWRAP_MAX_ARGUMENTS = 9_000;

/** Of these, what is kept for the command and for the mounts that do not come from the policy. */
export const BWRAP_HEADROOM_ARGUMENTS = 500;

/** Probes of the disk that run concurrently for one plan. More would only wait in Node's thread pool. */
export const PROBE_CONCURRENCY = 32;

/** Probes that the kernel answers from its cache in one turn of the event loop: a millisecond. A cached plan needs a dozen. */
export const CACHED_PROBES_PER_TURN = 128;

/** Plans in the cache. An agent uses a handful of policies. */
export const MAX_CACHED_PLANS = 64;

/** Probed paths of a cached plan. Most plans have a dozen. A larger plan would take megabytes and is made for each start. */
export const MAX_CACHED_PROBES = 1_024;

/** How long `environment/info` waits for the probe of bwrap. It takes a tenth of a second unless something hangs. */
export const SANDBOX_PROBE_WAIT_MS = 2_000;

/** Covers in a pre-built sandbox. They are mounted when a program comes, half a millisecond each; building a sandbox takes ten. */
export const MAX_LATE_COVERS = 4;
