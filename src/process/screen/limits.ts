/** Evicted output of a terminal that is collected before the server looks for what it can drop. */
export const EVICTED_SOFT_BYTES = 64 * 1024;

/** Evicted output of a terminal that is kept at most. What exceeds it is dropped, except for the modes that it sets. */
export const EVICTED_HARD_BYTES = 256 * 1024;

/** Largest drawing of an evicted screen that is kept: a 200x50 screen with a colour of its own for every cell takes half of it. */
export const MAX_REDRAW_BYTES = 1024 * 1024;

/** Largest terminal that is drawn: 500 x 500, or 12 bytes of memory for each of these cells. Larger ones have no screen. */
export const MAX_SCREEN_CELLS = 250_000;

/** Time to draw one screen: a hundred times what a usual screen takes. Some escape sequences change every cell of a large terminal. */
export const DRAWING_TIMEOUT_MS = 2_000;

/**
 * Screens that wait to be drawn or are being drawn. One that waits takes little memory, and a usual one is drawn in a few milliseconds. One
 * session may have three quarters of what the others leave.
 */
export const MAX_WAITING_DRAWINGS = 512;

/** Output whose modes are determined in one turn of the event loop: up to 10 ms. */
export const MODES_SLICE_BYTES = 64 * 1024;

/** Heap of the thread that draws screens. The largest terminal takes 3 MB. */
export const SCREEN_THREAD_HEAP_MB = 64;

/** Time to start the thread: a hundred times what it takes on an idle machine. */
export const SCREEN_THREAD_START_MS = 10_000;

/** The thread ends this long after the last screen. Starting it takes longer than drawing a screen. */
export const SCREEN_THREAD_IDLE_MS = 60_000;

/** After folding evicted output, the server does not fold again for this many times as long: at most a tenth of one core. */
export const FOLD_REST_FACTOR = 9;

/** Resizes that are remembered with their position in the retained output. A person who drags a window causes some dozens. */
export const MAX_RESIZES = 256;

/** Private modes and pushed key protocols of a program that are remembered. Programs use some dozens. */
export const MAX_PRIVATE_MODES = 64;
export const MAX_KEYBOARD_STACK = 16;

/** Characters of one cell that are drawn: a letter and 30 combining ones, the limit of Unicode's Stream-Safe Text Format (UAX 15). */
export const MAX_CELL_CHARACTERS = 32;

/** Characters of a title and of the address of a link that are kept. */
export const MAX_TITLE_CHARACTERS = 1024;
export const MAX_LINK_CHARACTERS = 2048;

/** Beginning of an unfinished control string that is kept when the string is longer than the limits. */
export const CONTROL_STRING_HEAD_BYTES = 64;

/** Repetitions of a sequence that are drawn on a screen of any size. A larger screen allows as many as it has lines or columns. */
export const MAX_HARMLESS_REPEATS = 32;
