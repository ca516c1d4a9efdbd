import { escapeUnprintable, UNPRINTABLE } from '../../../base/unprintable.ts';

/**
 * A name or path in a line for a model. One that has control or format characters, and could look like something else or like lines of
 * the tools, is quoted and escaped as in JSON, so that a model can pass it back.
 */
export function shownName(name: string): string {
  const isPlain = name.search(UNPRINTABLE) === -1 && !name.startsWith('"');
  return isPlain ? name : quoted(name);
}

/** A text in quotes, escaped as in JSON. */
export function quoted(text: string): string {
  return escapeUnprintable(JSON.stringify(text));
}

/**
 * A line of text with escapes such as `\u{202e}` for control characters, and for characters that change the direction of text or hide
 * text from people. Tabs stay, and so do the joiners of scripts and emoji.
 */
export function shownLine(line: string): string {
  return shownText(line.replace(CONTROLS, escaped));
}

/** The same of a text of several lines whose control characters mean what they say. */
export function shownText(text: string): string {
  return text.replace(DECEPTIVE, escaped);
}

function escaped(character: string): string {
  return `\\u{${character.codePointAt(0)!.toString(16)}}`;
}

/** Controls but tab. */
const CONTROLS = /[\0-\x08\x0a-\x1f\x7f-\x9f]/g;

/** Line and paragraph separators, marks of direction, and tags. */
const DECEPTIVE = /[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\u{e0000}-\u{e007f}]/gu;
