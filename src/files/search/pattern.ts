import { refused } from '../errors.ts';
import { LONE_BYTES } from './byte-text.ts';
import type { SearchQuery } from './query.ts';

/** Rejects a pattern that no line can match or that cannot be passed to a program. */
export function checkPattern({ pattern }: SearchQuery): void {
  if (/\n/.test(pattern)) throw refused('pattern must not contain a line end: lines are searched one by one');
  if (pattern.includes('\0')) throw refused('pattern must not contain a NUL byte');
}

/** The error for a pattern that an engine does not understand. */
export function invalidPattern(reason: string): Error {
  return refused(`pattern is not a valid regular expression: ${reason}`);
}

/** The pattern for ripgrep. At its end of line a carriage return may come first. */
export function ripgrepPattern({ pattern, literal }: SearchQuery): string {
  if (literal) return pattern;
  return [...unitsOf(pattern)].map(({ unit, depth }) => (depth === 0 && unit === '$' ? END : unit)).join('');
}

/**
 * The pattern as a JavaScript regular expression for single lines.
 *
 * Patterns use ripgrep's syntax, which is Rust's. This supports the common part: alternatives, groups with and without names,
 * repetitions, anchors, classes including `[[:alpha:]]`, `\d \s \w \b` with their Unicode meaning, `\p{…}` with general categories,
 * `\x{…}` and a leading `(?i)`. Features that only JavaScript has, such as lookaround and backreferences, work here and are
 * rejected by ripgrep. Nested classes, scripts in `\p{…}`, `(?x)`, and flags inside the pattern only work with ripgrep.
 */
export function javaScriptPattern({ pattern, literal, caseSensitive }: SearchQuery): RegExp {
  // Ripgrep receives ill-formed UTF-16 as U+FFFD.
  const text = Buffer.from(pattern).toString();
  const flags = caseSensitive ? 'u' : 'iu';
  if (literal) return new RegExp(text.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&'), flags);
  const [leading = '', options = ''] = /^\(\?([imsu]+)\)/.exec(text) ?? [];
  try {
    return new RegExp(translate(text.slice(leading.length)), options.includes('i') ? 'iu' : flags);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw invalidPattern(error.message.replace(/^Invalid regular expression: .*: /su, ''));
  }
}

/**
 * The end of a line, before or after a carriage return. Ripgrep's own option for this (`--crlf`) forbids classes that contain one.
 */
const END = '(?:\\r??$)';
const WORD = '\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}';

/** Translations outside of classes, where the syntax differs from JavaScript. Nothing matches an invalid byte. */
const OUTSIDE: ReadonlyMap<string, string> = new Map([
  ['.', `[^\\n${LONE_BYTES}]`],
  ['$', END],
  ['(?P<', '(?<'],
  ['\\d', '\\p{Nd}'],
  ['\\D', `[^\\p{Nd}${LONE_BYTES}]`],
  ['\\s', '\\p{White_Space}'],
  ['\\S', `[^\\p{White_Space}${LONE_BYTES}]`],
  ['\\w', `[${WORD}]`],
  ['\\W', `[^${WORD}${LONE_BYTES}]`],
  ['\\b', `(?:(?<=[${WORD}])(?![${WORD}])|(?<![${WORD}])(?=[${WORD}]))`],
  ['\\B', `(?:(?<=[${WORD}])(?=[${WORD}])|(?<![${WORD}])(?![${WORD}]))`],
]);

/** Translations inside a class. */
const INSIDE: ReadonlyMap<string, string> = new Map([
  ['\\d', '\\p{Nd}'],
  ['\\D', '\\P{Nd}'],
  ['\\s', '\\p{White_Space}'],
  ['\\S', '\\P{White_Space}'],
  ['\\w', WORD],
  ['[:alnum:]', '0-9A-Za-z'],
  ['[:alpha:]', 'A-Za-z'],
  ['[:blank:]', '\\t\\x20'],
  ['[:digit:]', '0-9'],
  ['[:lower:]', 'a-z'],
  ['[:punct:]', '!-\\/:-@\\[-`\\{-~'],
  ['[:space:]', '\\t\\v\\f\\r\\x20'],
  ['[:upper:]', 'A-Z'],
  ['[:word:]', '0-9A-Za-z_'],
  ['[:xdigit:]', '0-9A-Fa-f'],
]);

function translate(pattern: string): string {
  return [...unitsOf(pattern)]
    .map(({ unit, depth }) => {
      const inClass = depth > 0;
      return (inClass ? INSIDE : OUTSIDE).get(unit) ?? translateUnit(unit, inClass);
    })
    .join('');
}

/** A unit of the syntax: an escape, the start of a class or named group, a named class, or one character. */
const UNIT = /\\x\{[0-9A-Fa-f]+\}|\\.|\[\^?\]?|\(\?P<|./gsu;
const UNIT_IN_CLASS = /\\x\{[0-9A-Fa-f]+\}|\\.|\[:[a-z]+:\]|\[\^?\]?|./gsu;

/** The units of a pattern, each with its depth of nested classes. The starts of classes are not counted. */
function* unitsOf(pattern: string): Generator<{ unit: string; depth: number }> {
  let depth = 0;
  for (let index = 0; index < pattern.length; ) {
    const syntax = depth > 0 ? UNIT_IN_CLASS : UNIT;
    syntax.lastIndex = index;
    const unit = syntax.exec(pattern)![0];
    index += unit.length;
    yield { unit, depth };
    if (unit.startsWith('[') && !unit.startsWith('[:')) depth++;
    else if (unit === ']' && depth > 0) depth--;
  }
}

function translateUnit(unit: string, inClass: boolean): string {
  if (unit === '\\n') throw refused('pattern must not contain a line end: lines are searched one by one');
  if (unit.startsWith('\\x{')) return unit.replace('x', 'u');
  if (unit.startsWith('\\')) return isEscape(unit, inClass) ? unit : unit.slice(1);
  if (!unit.startsWith('[')) return unit;
  if (inClass) throw invalidPattern('a class within a class needs ripgrep');
  // A `]` right at the start of a class is a member.
  return unit.replace(']', '\\]').replace('^', `^${LONE_BYTES}`);
}

/** Whether JavaScript accepts the escape. Other punctuation means itself, escaped or not. */
function isEscape(unit: string, inClass: boolean): boolean {
  return (
    /^\\(?:[\w^$\\.*+?()[\]{}|/<>]|[^\x00-\x7f])$/u.test(unit) || unit === '\\' || (unit === '\\-' && inClass)
  );
}
