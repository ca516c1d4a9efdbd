import { once } from '../base/once.ts';
import { UNPRINTABLE } from '../base/unprintable.ts';

/** A message of a server without the number of the system error, which the words before it explain. */
export function withoutErrorNumber(message: string): string {
  return message.replace(/ \(os error \d+\)/g, '');
}

/**
 * Makes text of other programs harmless on a terminal: control characters, marks that change the direction of text, invisible
 * characters and halves of surrogate pairs become escapes such as `\n` and `\u202e`.
 */
export function visible(text: string): string {
  if (PLAIN.test(text)) return text;
  return text.replace(UNPRINTABLE, escaped).replace(/\p{Surrogate}/gu, escaped);
}

/** A command line for people. An argument that a shell would not take as it is has quotes, so the line can be pasted. */
export function commandLine(argv: readonly string[]): string {
  return argv.map(quotedArgument).join(' ');
}

function quotedArgument(argument: string): string {
  if (visible(argument) !== argument) {
    // The quotes in which bash and zsh read escapes.
    return `$'${visible(argument.replace(/['\\]/g, '\\$&'))}'`;
  }
  return /^[\w@%+=:,./-]+$/.test(argument) ? argument : `'${argument.replaceAll("'", `'\\''`)}'`;
}

/** How many columns of a terminal the text takes. */
export function textWidth(text: string): number {
  if (PLAIN.test(text)) return text.length;
  let width = 0;
  for (const { segment } of graphemes().segment(text)) width += graphemeWidth(segment);
  return width;
}

/** Cuts text to a number of columns. Text that was cut ends with `…`. */
export function cutToWidth(text: string, columns: number): string {
  if (textWidth(text) <= columns) return text;
  let cut = '';
  let left = columns - 1;
  for (const { segment } of graphemes().segment(text)) {
    left -= graphemeWidth(segment);
    if (left < 0) break;
    cut += segment;
  }
  return `${cut}…`;
}

/** Whether to print colours: as FORCE_COLOR says, else not with NO_COLOR, else on a terminal. */
export function usesColours(env: NodeJS.ProcessEnv, stdout: { readonly isTTY?: boolean }): boolean {
  const { FORCE_COLOR: forced, NO_COLOR: none, TERM: terminal } = env;
  if (forced !== undefined) return forced !== '0' && forced !== 'false';
  return !none && stdout.isTTY === true && terminal !== 'dumb';
}

/** Printable ASCII. Most text is, and Node takes milliseconds to load what it knows of other characters. */
const PLAIN = /^[\x20-\x7e]*$/;

const graphemes = once(() => new Intl.Segmenter('en', { granularity: 'grapheme' }));

/** A character with what is drawn on it, such as accents. */
function graphemeWidth(grapheme: string): number {
  if (/^\p{Mark}+$/u.test(grapheme)) return 0;
  return WIDE.test(grapheme) ? 2 : 1;
}

/** Characters that terminals draw in two columns: emoji, and the scripts and full-width forms of East Asia. */
const WIDE =
  /^(?:\p{Emoji_Presentation}|.\ufe0f|[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe10-\ufe19\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\u{1b000}-\u{1b2ff}\u{20000}-\u{3fffd}])/u;

function escaped(character: string): string {
  const code = character.codePointAt(0)!;
  const short = SHORT_ESCAPES.get(character);
  if (short !== undefined) return short;
  if (code > 0xffff) return `\\U${code.toString(16).padStart(8, '0')}`;
  return code < 0x80
    ? `\\x${code.toString(16).padStart(2, '0')}`
    : `\\u${code.toString(16).padStart(4, '0')}`;
}

const SHORT_ESCAPES: ReadonlyMap<string, string> = new Map([
  ['\n', '\\n'],
  ['\r', '\\r'],
  ['\t', '\\t'],
]);
