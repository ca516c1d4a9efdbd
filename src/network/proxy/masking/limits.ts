/** Credential providers of one start. */
export const MAX_PROVIDERS = 64;

/** Variables, patterns and URL prefixes that one provider may name. */
export const MAX_PROVIDER_ENTRIES = 64;

/** Longest pattern of a credential: the reference's number. */
export const MAX_PATTERN_LENGTH = 2048;

/** Nesting depth of groups in a pattern; parsing and matching recurse. */
export const MAX_GROUP_DEPTH = 32;

/** Largest number in braces: each repetition needs a state. */
export const MAX_REPEAT = 1024;

/** Quantifiers in a row, each of which repeats everything before it; parsing and matching recurse. */
export const MAX_REPEATS_OF_REPEATS = 4;

/** States of one pattern; nested repetitions multiply them. */
export const MAX_PATTERN_STATES = 8192;

/** States of all patterns of one start: about 10 MB, kept as long as the program runs. */
export const MAX_ALL_STATES = 128 * 1024;

/** Steps for comparing an environment with all patterns: a fraction of a second. A request that needs more is rejected. */
export const MAX_MATCH_STEPS = 4_000_000;

/** Characters that can be searched for a fixed text in the time of one step. */
export const SEARCHED_PER_STEP = 256;

/** Repetitions in a mask for an unbounded quantifier: long enough to differ from ordinary text. */
export const MASK_REPETITIONS = 24;

/** Longest mask. Longer credentials get a mask that is shorter than they are. */
export const MAX_MASK_LENGTH = 1024;

/** Shortest mask that does not follow a pattern. */
export const MIN_MASK_LENGTH = 24;

/** Random bits in a mask. With fewer it might equal another credential or mask. */
export const MIN_MASK_BITS = 48;

/** How often a mask is generated from a pattern before one without its format is used. */
export const MASK_ATTEMPTS = 16;

/** Credentials of one program. */
export const MAX_MASKS = 256;

/** A shorter credential is recognised only as a whole value, because it might be part of any text. */
export const MIN_EMBEDDED_LENGTH = 16;

/** Length of such a credential in base64. */
export const MIN_ENCODED_LENGTH = Math.ceil((MIN_EMBEDDED_LENGTH * 4) / 3);

/** Length of the fixed prefix that a pattern needs to be searched for in other variables. */
export const MIN_DISTINCTIVE_PREFIX = 4;

/** A shorter credential is masked only in its provider's variables: others may contain the same value by chance. */
export const MIN_REPEATED_LENGTH = 8;
