/** How long a self-test program may take. The longest makes two dozen attempts, which takes a tenth of a second. */
export const PROGRAM_DEADLINE_MS = 20_000;

/** How much output of a self-test program is kept. The longest report has two kilobytes. */
export const PROGRAM_OUTPUT_BYTES = 64 * 1024;
