/** Bytes of one configuration file; people write some thousand. */
export const MAX_EXECUTOR_CONFIG_BYTES = 1024 * 1024;

/** Bytes of all files that one answer is made from: every directory down to the working one may have its own. */
export const MAX_EXECUTOR_CONFIG_TOTAL_BYTES = 8 * 1024 * 1024;

/** Selections of one kind in a request, and keys in one of them. */
export const MAX_SELECTED_PATHS = 4_096;
export const MAX_PATH_KEYS = 128;

/** Tables and lists within each other in a configuration file; what is deeper is refused. */
export const MAX_TOML_DEPTH = 128;
