/** How long a program of the self-test may take. The longest tries a dozen things, which takes it a tenth of a second. */
export const PROGRAM_DEADLINE_MS = 20_000;

/** What is kept of what such a program prints; the longest report has two kilobytes. */
export const PROGRAM_OUTPUT_BYTES = 64 * 1024;
