// Texts that are expensive to parse, normalize or match.
import { MAX_GLOB_CHARACTERS, MAX_GLOBS } from '../../dist/files/limits.js';
import { MAX_REQUEST_KEYS, MAX_URI_LENGTH } from '../../dist/protocol/limits.js';

const KIB = 1024;
const MIB = 1024 * 1024;

/** Characters that are expensive in some parser, repeated. */
export const hostileUnits = [
  ...['a\u0301\u0327', '\u0301', '\ufdfa', '\u00fc\u4e2d.', '\u202e', '\0', '\t\n', ' '],
  ...['%', '%C3%A9', '%2e%2f', 'a/', 'a/../', '/', '*a', '**/', '?', '[a-z]', '{a,b}', '(a+)+', '\\', '"'],
];

/**
 * URIs that are expensive to parse: of each kind one at the length limit, and some far above it. The server may run as root and some
 * methods change files, so every URI that names a path on this machine names one below `base`.
 * @param {string} base A URI of a directory.
 */
export function hostileUris(base) {
  const below = `${base}/nowhere/`;
  const longest = (unit, start = below, end = 'x') =>
    `${start}${unit.repeat(Math.floor((MAX_URI_LENGTH - start.length - end.length) / unit.length))}${end}`;
  return [
    ...['a\u0301\u0327', '\u0301', '\ufdfa', '%', '%C3%A9', '%2e%2f', 'a/', 'a/../', '/'].map((unit) =>
      longest(unit),
    ),
    longest('a/', below, '?'),
    longest('\t\n', ` ${below}`),
    longest('a\u0301', 'file://', '/nowhere/x'),
    longest('\u00fc\u4e2d.', 'file://', '/nowhere/x'),
    longest('a', '', ':'),
    `${below}${'a/'.repeat(1_900)}x`,
    `${below}${'\u0301'.repeat(MIB / 2)}`,
    `file://${'a\u0301'.repeat(100 * KIB)}/nowhere/x`,
  ];
}

/** The most globs, with the most characters in all, that nearly match a name of many equal letters, or any path. */
export const HOSTILE_GLOBS = globs((index) => `${'*a'.repeat(12)}${index}b`);
export const HOSTILE_PATH_GLOBS = globs((index) => `${'**/a*/'.repeat(4)}${index}x`);
/** One glob with nearly all of the characters. */
export const HOSTILE_LONG_GLOBS = [`${'*a'.repeat(2_000)}b`, `${'*a'.repeat(2_000)}c`];
/** More than the server accepts. */
export const TOO_MANY_GLOBS = Array.from({ length: 255 }, (_, index) => `${'*a'.repeat(100)}${index}b`);

function globs(glob) {
  const all = Array.from({ length: MAX_GLOBS - 16 }, (_, index) => glob(index));
  while (all.join('').length > MAX_GLOB_CHARACTERS) all.pop();
  return all;
}

/** Objects and arrays at the limits of a message. */
export const MAX_VALUES = 262_144 - 16;
export const MAX_DEPTH = 127 - 4;

/** An object with as many members as a request may have. */
export function wideObject(members = MAX_REQUEST_KEYS - 16) {
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
