/** Bytes of one configuration file. Real ones have a few thousand. The event loop waits for the parser, up to 40 ms for this much. */
export const MAX_EXECUTOR_CONFIG_BYTES = 128 * 1024;

/** Bytes of all files for one response: every directory down to the working directory may have a file. */
export const MAX_EXECUTOR_CONFIG_TOTAL_BYTES = 8 * 1024 * 1024;

/** Nesting depth of a configuration file. Deeper files are rejected. */
export const MAX_TOML_DEPTH = 128;
