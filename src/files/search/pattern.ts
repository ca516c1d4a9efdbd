import { refused } from '../errors.ts';
import { LONE_BYTES } from './byte-text.ts';
import type { SearchQuery } from './query.ts';

/** Refuses what no line can match or no program can be told. */
export function checkPattern({ pattern }: SearchQuery): void {
  if (/\n/.test(pattern)) throw refused('pattern must not contain a line end: lines are searched one by one');
  if (pattern.includes('\0')) throw refused('pattern must not contain a NUL byte');
}

/** The answer to a pattern that an engine does not understand. */
export function invalidPattern(complaint: string): Error {
  return refused(`pattern is not a valid regular expression: ${complaint}`);
}

/** The pattern for ripgrep. Where it ends a line, that may be by a carriage return, too. */
export function ripgrepPattern({ pattern, literal }: SearchQuery): string {
  if (literal) return pattern;
  return [...unitsOf(pattern)].map(({ unit, depth }) => (depth === 0 && unit === '$' ? END : unit)).join('');
}

/**
 * The pattern as a regular expression of JavaScript, for single lines.
 *
 * Patterns are written in the syntax that ripgrep takes, Rust's; this covers what people commonly use of it: alternatives, groups
 * with and without names, repetitions, anchors, classes including `[[:alpha:]]`, `\d \s \w \b` in their Unicode sense, `\p{…}`
 * with general categories, `\x{…}` and a leading `(?i)`. What only JavaScript has, such as lookaround and references to groups, works here and
 * is refused by ripgrep; classes within classes, scripts in `\p{…}`, `(?x)`, and flags inside the pattern are ripgrep's alone.
 */
export function javaScriptPattern({ pattern, literal, caseSensitive }: SearchQuery): RegExp {
  // What is not well-formed arrives at ripgrep as U+FFFD.
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

/** The end of a line, before a carriage return or behind it. Ripgrep's own option for that bans classes that have one. */
const END = '(?:\\r??$)';
const WORD = '\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}';

/** What a text means outside of classes, where it differs from JavaScript. Nothing matches a byte that is not text. */
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

/** The same within a class. */
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

/** The units of a pattern, each with the number of classes that it stands in; the starts of these do not count. */
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
  // A bracket right at the start of a class is a member.
  return unit.replace(']', '\\]').replace('^', `^${LONE_BYTES}`);
}

/** Whether JavaScript knows the escape; other punctuation stands for itself, escaped or not. */
function isEscape(unit: string, inClass: boolean): boolean {
  return (
    /^\\(?:[\w^$\\.*+?()[\]{}|/<>]|[^\x00-\x7f])$/u.test(unit) || unit === '\\' || (unit === '\\-' && inClass)
  );
}
