import { SEARCH_MAX_LINE_BYTES, SEARCH_TEXT_LENGTH } from '../limits.ts';
import { byteLengthOf, readable, textOfBytes } from './byte-text.ts';
import type { SearchMatch } from './query.ts';

/**
 * The matching lines of a file. A file with a UTF-16 byte order mark is decoded. Any other file with a NUL byte is binary and has
 * no matches. Lines that are too long are counted and reported, but not searched.
 */
export function* matchingLines(
  file: Buffer,
  pattern: RegExp,
  onLongLine: () => void,
): Generator<Omit<SearchMatch, 'path'>> {
  const content = toUtf8(file);
  if (content.includes(0)) return;
  let line = 0;
  for (const block of blocksOfLines(content)) {
    if (block === null) {
      line++;
      onLongLine();
      continue;
    }
    const text = textOfBytes(block);
    for (let start = 0; start < text.length; ) {
      const next = text.indexOf('\n', start);
      const end = next < 0 ? text.length : next;
      line++;
      const current = text.slice(start, end);
      const match = pattern.exec(current);
      if (match !== null) yield { line, ...describeMatch(current, match.index) };
      start = end + 1;
    }
  }
}

/** The start of the first match and the text to return. A trailing carriage return can match but is not returned. */
export function describeMatch(line: string, start: number): { column: number; text: string } {
  return { column: byteLengthOf(line.slice(0, start)) + 1, text: excerpt(line.replace(/\r$/, ''), start) };
}

/** Whole lines in blocks that are small enough to decode; null for a line that is too long. */
function* blocksOfLines(content: Buffer): Generator<Buffer | null> {
  for (let start = 0; start < content.length; ) {
    // A line of the maximum length ends at this index.
    const limit = start + SEARCH_MAX_LINE_BYTES;
    const lastEnd = limit >= content.length ? content.length : content.lastIndexOf(LINE_END, limit) + 1;
    const isWhole = lastEnd > start;
    const nextEnd = isWhole ? lastEnd : content.indexOf(LINE_END, limit) + 1 || content.length;
    yield isWhole ? content.subarray(start, nextEnd) : null;
    start = nextEnd;
  }
}

const LINE_END = 0x0a;

function toUtf8(file: Buffer): Buffer {
  const mark = file.subarray(0, 3).toString('latin1');
  if (mark === '\xef\xbb\xbf') return file.subarray(3);
  if (mark.startsWith('\xff\xfe')) return Buffer.from(new TextDecoder('utf-16le').decode(file));
  if (mark.startsWith('\xfe\xff')) return Buffer.from(new TextDecoder('utf-16be').decode(file));
  return file;
}

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
