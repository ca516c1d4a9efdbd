// Texts that are expensive to parse, normalize or match.

const KIB = 1024;
const MIB = 1024 * 1024;

/**
 * URIs that are expensive to parse. The server may run as root and some methods change files, so every URI that names a path on this
 * machine names one below `base`.
 * @param {string} base A URI of a directory.
 */
export function hostileUris(base) {
  const below = `${base}/nowhere/`;
  return [
    `${below}${'a\u0301\u0327'.repeat(100 * KIB)}`,
    `${below}${'\u0301'.repeat(MIB / 2)}`,
    `${below}${'%'.repeat(200 * KIB)}`,
    `${below}${'%C3%A9'.repeat(50 * KIB)}`,
    `${below}${'%2e%2f'.repeat(50 * KIB)}x`,
    `${below}${'a/'.repeat(100 * KIB)}`,
    `${below}${'a/'.repeat(100 * KIB)}?`,
    `${below}${'a/../'.repeat(50 * KIB)}x`,
    `${below}${'/'.repeat(200 * KIB)}x`,
    `${below}${'a/'.repeat(1_900)}x`,
    `${' '.repeat(200 * KIB)}${below}${'\t\n'.repeat(100 * KIB)}x`,
    `file://${'a\u0301'.repeat(100 * KIB)}/nowhere/x`,
    `file://${'\u00fc\u4e2d'.repeat(20 * KIB)}/nowhere/x`,
    `${'a'.repeat(200 * KIB)}:`,
  ];
}

/** 255 globs that nearly match a name of many equal letters. */
export const HOSTILE_GLOBS = Array.from({ length: 255 }, (_, index) => `${'*a'.repeat(100)}${index}b`);

/** 255 globs that nearly match any path. */
export const HOSTILE_PATH_GLOBS = Array.from(
  { length: 255 },
  (_, index) => `${'**/a*/'.repeat(30)}${index}x`,
);

/** Objects and arrays at the limits of a message. */
export const MAX_VALUES = 262_144 - 16;
export const MAX_DEPTH = 127 - 4;

/** An object with as many members as a message may have. */
export function wideObject(members = MAX_VALUES) {
  return Object.fromEntries(Array.from({ length: members }, (_, index) => [`k${index}`, 0]));
}

/** Nested objects, as deep as a message may be. */
export function deepObject(levels = MAX_DEPTH) {
  let value = {};
  for (let level = 0; level < levels; level++) value = { a: value };
  return value;
}

/** Base64 of many bytes. */
export function base64(bytes) {
  return 'QUJD'.repeat(Math.floor(bytes / 3));
}
