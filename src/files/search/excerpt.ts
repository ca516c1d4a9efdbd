import { SEARCH_TEXT_LENGTH } from '../limits.ts';
import { readable } from './byte-text.ts';

/** The line as it is told: whole, or a part of it around the match with `…` where something is cut off. */
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

/** An index that does not split a surrogate pair: the given one or the one before it. */
function wholeCharacter(line: string, index: number): number {
  const splits = index > 0 && index < line.length && (line.codePointAt(index - 1) ?? 0) > 0xffff;
  return splits ? index - 1 : index;
}
