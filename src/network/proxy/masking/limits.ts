/** Providers of one start; each guards a family of credentials. */
export const MAX_PROVIDERS = 64;

/** Variables, patterns and URL prefixes that one provider may name. */
export const MAX_PROVIDER_ENTRIES = 64;

/** Longest pattern of a credential: the reference's number. */
export const MAX_PATTERN_LENGTH = 2048;

/** Groups inside groups of a pattern; reading and running one recurses. */
export const MAX_GROUP_DEPTH = 32;

/** Largest number in braces: a state is made for every repetition. */
export const MAX_REPEAT = 1024;

/** Repetitions behind each other that repeat what is before them all; reading and running one recurses. */
export const MAX_REPEATS_OF_REPEATS = 4;

/** States of one pattern; a repetition of a repetition multiplies them. */
export const MAX_PATTERN_STATES = 8192;

/** States of all patterns of one start: about 10 MB, kept as long as the program runs. */
export const MAX_ALL_STATES = 128 * 1024;

/** Steps that comparing an environment with all patterns may take: a fraction of a second. Whoever needs more is refused. */
export const MAX_MATCH_STEPS = 4_000_000;

/** Characters that are searched for a fixed text in the time of one such step. */
export const SEARCHED_PER_STEP = 256;

/** Repetitions in a mask where a pattern leaves their number open: long enough to be told from ordinary text. */
export const MASK_REPETITIONS = 24;

/** Longest mask. Longer credentials get one that is shorter than they are. */
export const MAX_MASK_LENGTH = 1024;

/** Shortest mask that owes nothing to a pattern. */
export const MIN_MASK_LENGTH = 24;

/** Bits of chance in a mask: with fewer it might be the next credential itself, or stand for two. */
export const MIN_MASK_BITS = 48;

/** How often a mask is drawn from a pattern before one without its shape is taken. */
export const MASK_ATTEMPTS = 16;

/** Credentials of one program. */
export const MAX_MASKS = 256;

/** A credential that is shorter is only found where it is all of a value: it might be a part of any text. */
export const MIN_EMBEDDED_LENGTH = 16;

/** Characters that a credential has in base64 which is long enough to be a part of a text. */
export const MIN_ENCODED_LENGTH = Math.ceil((MIN_EMBEDDED_LENGTH * 4) / 3);

/** Characters at the beginning of a pattern that must be given for it to be looked for in values of other names. */
export const MIN_DISTINCTIVE_PREFIX = 4;

/** A credential that is shorter is only masked in the variables of its provider: other variables hold such values by chance. */
export const MIN_REPEATED_LENGTH = 8;
