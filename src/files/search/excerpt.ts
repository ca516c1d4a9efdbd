import { SEARCH_TEXT_LENGTH } from '../limits.ts';
import { readable } from './byte-text.ts';

/** The text of a line to return: whole, or the part around the match with `…` at each cut. */
export function excerpt(line: string, matchStart: number): string {
  if (line.length <= SEARCH_TEXT_LENGTH) return readable(line);
  const before = Math.floor(SEARCH_TEXT_LENGTH / 4);
  const start = wholeCharacter(
    line,
    Math.max(0, Math.min(matchStart - before, line.length - SEARCH_TEXT_LENGTH)),
  );
  const end = wholeCharacter(line, Math.min(line.length, start + SEARCH_TEXT_LENGTH));
  return `${start > 0 ? '…' : ''}${readable(line.slice(start, end))}${end < line.length ? '…' : ''}`;
}

/** The index, or the one before it if it would split a surrogate pair. */
function wholeCharacter(line: string, index: number): number {
  const splits = index > 0 && index < line.length && (line.codePointAt(index - 1) ?? 0) > 0xffff;
  return splits ? index - 1 : index;
}
