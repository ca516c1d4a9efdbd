/** The result of a replacement, or why it is not possible. */
export type EditResult =
  | { readonly text: string; readonly count: number; readonly lines: readonly number[] }
  | { readonly problem: 'noMatch'; readonly nearest: NearestLine | null }
  | { readonly problem: 'tooLarge'; readonly count: number; readonly bytes: number }
  | { readonly problem: 'severalMatches'; readonly count: number; readonly lines: readonly number[] };

/** The line of the file that is most like the first line of the text that was not found. */
interface NearestLine {
  readonly line: number;
  readonly text: string;
  /** Whether both differ in white space only. */
  readonly isBlankDifference: boolean;
}

/**
 * Replaces a text that occurs once, or with `all` everywhere. In a file whose lines end with CRLF, line breaks of both texts mean CRLF.
 * `lines` are where the matches begin, at most 20. A result of more than `maxBytes` of UTF-8 is not made.
 */
export function replaceExactly(
  content: string,
  before: string,
  after: string,
  all: boolean,
  maxBytes = Number.POSITIVE_INFINITY,
): EditResult {
  const usesCrlf = content.includes('\r\n') && !(before + after).includes('\r');
  const isMixed = usesCrlf && /(?<!\r)\n/.test(content);
  const converts = usesCrlf && (!isMixed || (before.includes('\n') && !content.includes(before)));
  const [wanted, replacement] = converts ? [crlf(before), crlf(after)] : [before, after];
  const starts = startsOf(content, wanted, all);
  if (starts.length === 0) return { problem: 'noMatch', nearest: nearestLine(content, before) };
  const lines = starts.slice(0, MAX_LINES).map((start) => lineOf(content, start));
  if (starts.length > 1 && !all) return { problem: 'severalMatches', count: starts.length, lines };
  const added = Buffer.byteLength(replacement) - Buffer.byteLength(wanted);
  const bytes = Buffer.byteLength(content) + starts.length * added;
  if (bytes > maxBytes) return { problem: 'tooLarge', count: starts.length, bytes };
  // A function, so that `$` has no meaning.
  const text = all
    ? content.replaceAll(wanted, () => replacement)
    : content.replace(wanted, () => replacement);
  return { text, count: starts.length, lines };
}

function crlf(text: string): string {
  return text.replaceAll('\n', '\r\n');
}

/** Where the text begins. Overlapping matches count where one match is expected, because each of them could be meant. */
function startsOf(content: string, wanted: string, all: boolean): number[] {
  const starts: number[] = [];
  const step = all ? wanted.length : 1;
  const most = all ? Number.POSITIVE_INFINITY : MAX_COUNTED;
  for (
    let at = content.indexOf(wanted);
    at !== -1 && starts.length < most;
    at = content.indexOf(wanted, at + step)
  )
    starts.push(at);
  return starts;
}

function lineOf(content: string, index: number): number {
  let line = 1;
  for (let at = content.indexOf('\n'); at !== -1 && at < index; at = content.indexOf('\n', at + 1)) line++;
  return line;
}

function nearestLine(content: string, before: string): NearestLine | null {
  const wanted = before.split('\n').find((line) => line.trim() !== '');
  if (wanted === undefined) return null;
  const key = squeezed(wanted);
  let best: NearestLine | null = null;
  let bestScore = MIN_LIKENESS;
  let line = 0;
  for (const text of lines(content)) {
    if (++line > MAX_COMPARED_LINES) break;
    const candidate = squeezed(text);
    const isBlankDifference = candidate === key;
    const score = isBlankDifference ? 2 : likeness(candidate, key);
    if (score <= bestScore) continue;
    best = { line, text: text.replace(/\r$/, '').slice(0, MAX_SHOWN), isBlankDifference };
    bestScore = score;
    if (isBlankDifference) break;
  }
  return best;
}

function* lines(content: string): Generator<string> {
  for (let start = 0; start <= content.length; ) {
    const end = content.indexOf('\n', start);
    yield content.slice(start, end === -1 ? content.length : end);
    if (end === -1) return;
    start = end + 1;
  }
}

function squeezed(line: string): string {
  return line.slice(0, MAX_COMPARED_CHARACTERS).replace(/\s+/g, '');
}

/** The share of the longer text that is a common beginning or end. */
function likeness(one: string, other: string): number {
  const shorter = Math.min(one.length, other.length);
  let start = 0;
  while (start < shorter && one[start] === other[start]) start++;
  let end = 0;
  while (end < shorter - start && one.at(-1 - end) === other.at(-1 - end)) end++;
  return (start + end) / Math.max(one.length, other.length, 1);
}

const MAX_LINES = 20;
/** Matches that are counted where one is expected. */
const MAX_COUNTED = 1_000;
const MAX_SHOWN = 200;
const MIN_LIKENESS = 0.4;
/** Bounds of the search for a similar line. */
const MAX_COMPARED_LINES = 100_000;
const MAX_COMPARED_CHARACTERS = 400;
