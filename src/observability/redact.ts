import { REDACTION_MARGIN_CHARS } from './limits.ts';

/**
 * Replaces what looks like a secret by `***` and truncates the text to `maxChars`. Recognises secrets by the names before them
 * (flags, assignments, headers), by their position in a URL and by the formats of well-known tokens. A secret that looks like an
 * ordinary word is not recognised: redaction limits damage, but callers still must not log secrets.
 */
export function redactText(text: string, maxChars: number): string {
  const known = text.slice(0, maxChars + REDACTION_MARGIN_CHARS);
  let clean = '';
  let at = 0;
  for (const { start, end } of secretRanges(known)) {
    clean += known.slice(at, start) + HIDDEN;
    at = end;
  }
  clean += known.slice(at);
  return text.length > maxChars ? cut(clean, maxChars, text.length) : clean;
}

/** From where to where a secret goes in a text. */
export interface SecretRange {
  readonly start: number;
  end: number;
}

/** Finds what looks like a secret, in order and without overlaps. */
export function secretRanges(text: string): SecretRange[] {
  const found: SecretRange[] = [];
  for (const pattern of PATTERNS) {
    for (const { index, 0: match, 1: group = '', groups } of text.matchAll(pattern)) {
      const start = groups === undefined ? index + group.length : index - group.length;
      found.push({ start, end: index + match.length });
    }
  }
  found.sort((a, b) => a.start - b.start);
  const merged: SecretRange[] = [];
  for (const range of found) {
    const last = merged.at(-1);
    if (last !== undefined && range.start < last.end) last.end = Math.max(last.end, range.end);
    else merged.push(range);
  }
  return merged;
}

/** Redacts an argument vector. In addition to {@link redactText} it hides the argument after a flag such as `--token`. */
export function redactArguments(argv: readonly string[], maxChars: number): string[] {
  return argv.map((argument, index) => {
    const before = argv[index - 1];
    const named = before !== undefined && SECRET_FLAG.test(before) && !argument.startsWith('-');
    return named ? HIDDEN : redactText(argument, maxChars);
  });
}

/** What replaces a secret. */
export const HIDDEN = '***';

/** Words in the names of secrets. */
const SECRET_WORD =
  '(?:api[-_]?key|access[-_]?key|private[-_]?key|secret|token|passw(?:or)?d|passphrase|credential)';
/** A name with such a word in it, up to its end. Bounded, like every repetition that can be tried at many positions. */
const SECRET_NAME = `${SECRET_WORD}(?![\\w.-]{65})[\\w.-]{0,64}(?![\\w.-])`;
/** A quote that is not closed ends with its line. A quote after a backslash does not close it. */
const VALUE =
  '(?:"[^"\\\\]*(?:\\\\[^][^"\\\\]*)*"|\'[^\']*\'|["\'][^\\r\\n]+|\\\\{1,8}"[^"\\r\\n]+|[^\\s"\'&;|,)]+)';
/**
 * What is between a name and its value: an equals sign, a colon, `=>` or `:=`, and after a flag also spaces. The quotes of JSON within a
 * string have backslashes.
 */
const BEFORE_VALUE = '(?:(?:\\\\{0,8}["\'])?\\s*(?:=>|:=|[=:])\\s*|(?<=(?:^|\\s)--?[\\w.-]{0,160})\\s+(?!-))';
const SECRET_FLAG = new RegExp(`^--?(?:[\\w.-]{0,64}${SECRET_NAME}|user|u)$`, 'i');

/**
 * Each pattern starts with its rarest word, so that the surroundings are matched only where that occurs. It takes linear time also for a
 * text that consists of such words: no part of the text is looked at for each of them. The first group is kept, except that the group
 * `before` belongs to the secret.
 */
const PATTERNS: readonly RegExp[] = [
  /-----BEGIN [A-Z ]{0,32}PRIVATE KEY(?: BLOCK)?-----[\s\S]*?(?:-----END [A-Z ]{0,32}PRIVATE KEY(?: BLOCK)?-----|$)/g,
  /\b((?:(?:proxy-)?authorization|(?:set-)?cookie|x-[\w-]{0,32}-key)["']?\s*[:=]\s*)[^\r\n"']+/gi,
  /\b((?:bearer|basic)\s+)[\w.~+/=-]{8,}/gi,
  /(:\/\/)[^\s/@"']{1,512}(?=@)/g,
  new RegExp(`(${SECRET_NAME}${BEFORE_VALUE})${VALUE}`, 'gi'),
  /((?:^|\s)(?:-u|--user)[\s=]+)(?:"[^"]*"|'[^']*'|[^\s"']+)/g,
  /\b(?:gh[pousr]_|github_pat_|glpat-|npm_|xox[abeprs]-|sk-|rk_live_|sk_live_)[\w-]{12,}/g,
  /\b(?:AKIA|ASIA)[0-9A-Z]{16}\b/g,
  /\.(?<=\b(?<before>eyJ[\w-]{8,1024})\.)[\w-]{8,4096}\.[\w-]*/g,
];

function cut(text: string, maxChars: number, length: number): string {
  const kept = text.slice(0, maxChars).replace(/[\ud800-\udbff]$/, '');
  return `${kept}… (${length} characters)`;
}
