// Patterns: a JSON value that describes another one. Objects and arrays must agree exactly, member for member;
// an object whose only key starts with `$` is a matcher.
import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';

const UUID_V4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

const MATCHERS = {
  /** Anything, as long as it is there. */
  $any: (_, actual) => actual !== undefined,
  $type: (type, actual) => typeOf(actual) === type || (type === 'integer' && Number.isInteger(actual)),
  $uuid: (_, actual) => typeof actual === 'string' && UUID_V4.test(actual),
  $matches: (source, actual) => isText(actual) && new RegExp(source, 'su').test(String(actual)),
  $includes: (part, actual) =>
    Array.isArray(actual)
      ? actual.some((item) => matches(part, item))
      : isText(actual) && String(actual).includes(part),
  $not: (pattern, actual) => !matches(pattern, actual),
  $oneOf: (patterns, actual) => patterns.some((pattern) => matches(pattern, actual)),
  $allOf: (patterns, actual) => patterns.every((pattern) => matches(pattern, actual)),
  /** The listed parts occur in this order. */
  $sequence: (parts, actual) => isText(actual) && inOrder(parts, String(actual)),
  /** Both ends inclusive. */
  $range: ([min, max], actual) => typeof actual === 'number' && actual >= min && actual <= max,
  $length: (pattern, actual) => matches(pattern, actual?.length),
  $each: (pattern, actual) =>
    typeof actual === 'object' &&
    actual !== null &&
    Object.values(actual).every((item) => matches(pattern, item)),
  /** These items in any order, each once and nothing else. */
  $unordered: (patterns, actual) => Array.isArray(actual) && isPermutation(patterns, actual),
  /** The members of an object, in the order of the wire. */
  $keys: (keys, actual) => typeOf(actual) === 'object' && isDeepStrictEqual(Object.keys(actual), keys),
  /** At least these members; others are free. */
  $partial: (members, actual) =>
    typeOf(actual) === 'object' && Object.keys(members).every((key) => matches(members[key], actual[key])),
  $absent: (_, actual) => actual === undefined,
  $optional: (pattern, actual) => actual === undefined || matches(pattern, actual),
  /** The same lines in any order. */
  $lines: (lines, actual) => isText(actual) && isDeepStrictEqual(sortedLines(actual), [...lines].sort()),
  $base64Text: (pattern, actual) =>
    isCanonicalBase64(actual) && matches(pattern, Buffer.from(actual, 'base64').toString('utf8')),
  /** What the base64 stands for, as bytes: goes with `$hex`, `$bytes` and `$sha256`. */
  $base64: (pattern, actual) => isCanonicalBase64(actual) && matches(pattern, Buffer.from(actual, 'base64')),
  $hex: (hex, actual) => Buffer.isBuffer(actual) && actual.toString('hex') === hex,
  $bytes: (pattern, actual) => Buffer.isBuffer(actual) && matches(pattern, actual.length),
  $sha256: (digest, actual) =>
    Buffer.isBuffer(actual) && createHash('sha256').update(actual).digest('hex') === digest,
  /** The chunks of `process/read`: ascending, and joined per stream; a stream that is not named must be empty. */
  $output: (streams, actual) => Array.isArray(actual) && isOutput(streams, actual),
};

/** Where and how a value departs from a pattern, or undefined when it agrees. */
export function mismatch(pattern, actual, path = '') {
  const matcher = matcherOf(pattern);
  if (matcher) {
    const { name, argument } = matcher;
    if (name === '$partial' && typeOf(actual) === 'object') {
      return firstMismatch(Object.keys(argument), argument, actual, path);
    }
    return MATCHERS[name](argument, actual) ? undefined : { path, expected: pattern, actual };
  }
  if (Buffer.isBuffer(actual)) return mismatch(pattern, actual.toString('utf8'), path);
  if (typeOf(pattern) !== typeOf(actual)) return { path, expected: pattern, actual };
  if (Array.isArray(pattern)) {
    if (pattern.length !== actual.length) return { path: `${path}.length`, expected: pattern, actual };
    return firstMismatch(pattern.keys(), pattern, actual, path);
  }
  if (typeOf(pattern) === 'object') {
    return firstMismatch(new Set([...Object.keys(pattern), ...Object.keys(actual)]), pattern, actual, path);
  }
  return pattern === actual ? undefined : { path, expected: pattern, actual };
}

/** Problems in a pattern itself: a misspelt matcher would otherwise be compared as data. */
export function patternProblems(pattern) {
  if (typeof pattern !== 'object' || pattern === null) return [];
  const keys = Object.keys(pattern);
  const wrong = keys.filter(
    (key) => key.startsWith('$') && (keys.length > 1 || !Object.hasOwn(MATCHERS, key)),
  );
  return [...wrong.map((key) => `bad matcher ${key}`), ...Object.values(pattern).flatMap(patternProblems)];
}

/** Canonical standard base64, the only form a server may send. */
export function isCanonicalBase64(text) {
  return typeof text === 'string' && Buffer.from(text, 'base64').toString('base64') === text;
}

function matches(pattern, actual) {
  return mismatch(pattern, actual) === undefined;
}

function matcherOf(pattern) {
  if (typeOf(pattern) !== 'object') return undefined;
  const keys = Object.keys(pattern);
  const name = keys[0];
  return keys.length === 1 && Object.hasOwn(MATCHERS, name) ? { name, argument: pattern[name] } : undefined;
}

function firstMismatch(keys, pattern, actual, path) {
  for (const key of keys) {
    const found = mismatch(pattern[key], actual[key], path === '' ? String(key) : `${path}.${key}`);
    if (found) return found;
  }
  return undefined;
}

function typeOf(value) {
  if (value === null) return 'null';
  return Array.isArray(value) ? 'array' : typeof value;
}

function isText(value) {
  return typeof value === 'string' || Buffer.isBuffer(value);
}

function inOrder(parts, text) {
  let from = 0;
  return parts.every((part) => {
    const at = text.indexOf(part, from);
    from = at + part.length;
    return at >= 0;
  });
}

/** Takes the first item that fits each pattern, so patterns that overlap go from narrow to wide. */
function isPermutation(patterns, items) {
  const left = [...items];
  for (const pattern of patterns) {
    const index = left.findIndex((item) => matches(pattern, item));
    if (index < 0) return false;
    left.splice(index, 1);
  }
  return left.length === 0;
}

function sortedLines(text) {
  return String(text).replace(/\n$/, '').split('\n').sort();
}

function isOutput(streams, chunks) {
  const joined = { stdout: [], stderr: [], pty: [] };
  let last = 0;
  for (const { seq, stream, chunk, ...rest } of chunks) {
    if (!(seq > last) || !joined[stream] || !isCanonicalBase64(chunk) || Object.keys(rest).length > 0)
      return false;
    joined[stream].push(Buffer.from(chunk, 'base64'));
    last = seq;
  }
  return Object.keys(joined).every((name) => matches(streams[name] ?? '', Buffer.concat(joined[name])));
}
