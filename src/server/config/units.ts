/** Units in which the bounds of options are written. */
export const KIB = 1024;
export const MIB = 1024 * KIB;
export const GIB = 1024 * MIB;
export const TIB = 1024 * GIB;
export const SECOND = 1_000;
export const HOUR = 3_600 * SECOND;

/** Longer than any session should last, and well below the 2^31 ms that a Node timer can hold. */
export const WEEK = 168 * HOUR;

/** For counts without a natural ceiling. */
export const MAX_COUNT = 2 ** 31 - 1;
