import { SEARCH_MAX_LINE_BYTES, SEARCH_MAX_OUTPUT_LINE_BYTES } from '../limits.ts';
import { textOfBytes } from './byte-text.ts';
import { describeMatch } from './content.ts';
import type { SearchMatch } from './query.ts';

/** A match in a file whose path, in bytes, is relative to the searched directory. */
export interface RelativeMatch extends Omit<SearchMatch, 'path'> {
  readonly path: string;
}

/**
 * Parses the output of `rg --json`. The messages of a file are contiguous. Its matches are passed on when its `end` message says
 * that the file is text.
 */
export class RipgrepOutput {
  readonly #takesPath: (path: string) => boolean;
  readonly #found: (match: RelativeMatch) => void;
  readonly #skipped: (path: string) => void;
  #line: Buffer[] = [];
  #lineBytes = 0;
  #path: string | null = null;
  #matches: Omit<RelativeMatch, 'path'>[] = [];
  #hasLongMatch = false;
  #isComplete = false;

  /** @param skipped Called for a text file with a match on a line that is too long to be returned. */
  constructor(
    takesPath: (path: string) => boolean,
    found: (match: RelativeMatch) => void,
    skipped: (path: string) => void,
  ) {
    this.#takesPath = takesPath;
    this.#found = found;
    this.#skipped = skipped;
  }

  /** Whether ripgrep has reported its summary. */
  get isComplete(): boolean {
    return this.#isComplete;
  }

  /** Parses a chunk while `mayContinue` returns true, but at least one line. Returns the rest, which must be written again. */
  write(chunk: Buffer, mayContinue: () => boolean): Buffer {
    let start = 0;
    for (let end = chunk.indexOf(LINE_END); end >= 0; end = chunk.indexOf(LINE_END, start)) {
      this.#keep(chunk.subarray(start, end));
      this.#message(Buffer.concat(this.#line, this.#lineBytes));
      this.#line = [];
      this.#lineBytes = 0;
      start = end + 1;
      if (!mayContinue()) return chunk.subarray(start);
    }
    this.#keep(chunk.subarray(start));
    return chunk.subarray(chunk.length);
  }

  #keep(part: Buffer): void {
    const kept = part.subarray(0, SEARCH_MAX_OUTPUT_LINE_BYTES - this.#lineBytes);
    if (kept.length === 0) return;
    this.#line.push(kept);
    this.#lineBytes += kept.length;
  }

  #message(line: Buffer): void {
    const isMatch = line.subarray(0, MATCH.length).toString('latin1') === MATCH;
    if (isMatch && this.#path === null) return;
    const message = parseMessage(isMatch ? withFirstSubmatch(line.toString()) : line.toString());
    if (isMatch && message === null) this.#hasLongMatch = true;
    if (message?.type === 'begin') this.#begin(bytesOf(message.data.path).toString('latin1'));
    else if (message?.type === 'match') this.#match(message.data);
    else if (message?.type === 'end') this.#end(message.data.binary_offset === null);
    else if (message?.type === 'summary') this.#isComplete = true;
  }

  #begin(path: string): void {
    const relative = path.replace(/^\.\//, '');
    this.#path = this.#takesPath(relative) ? relative : null;
    this.#matches = [];
    this.#hasLongMatch = false;
  }

  #match({ lines, line_number, submatches }: MatchData): void {
    const bytes = bytesOf(lines);
    const line = bytes.at(-1) === LINE_END ? bytes.subarray(0, -1) : bytes;
    if (line.length > SEARCH_MAX_LINE_BYTES) {
      this.#hasLongMatch = true;
      return;
    }
    // Ripgrep reports no position for an empty match at the very end of a file.
    const start = textOfBytes(line.subarray(0, submatches[0]?.start ?? line.length)).length;
    this.#matches.push({ line: line_number, ...describeMatch(textOfBytes(line), start) });
  }

  #end(isText: boolean): void {
    const path = this.#path;
    if (isText && path !== null) {
      for (const match of this.#matches) this.#found({ path, ...match });
      if (this.#hasLongMatch) this.#skipped(path);
    }
    this.#path = null;
    this.#matches = [];
  }
}

/** Text, or bytes in base64 where they are not UTF-8. */
type Encoded = { readonly text: string } | { readonly bytes: string };

interface MatchData {
  readonly lines: Encoded;
  readonly line_number: number;
  readonly submatches: readonly { readonly start: number }[];
}

type Message =
  | { readonly type: 'begin'; readonly data: { readonly path: Encoded } }
  | { readonly type: 'match'; readonly data: MatchData }
  | { readonly type: 'end'; readonly data: { readonly binary_offset: number | null } }
  | { readonly type: 'summary' };

const LINE_END = 0x0a;
const MATCH = '{"type":"match"';

/** Null for a line that was cut because it was too long. */
function parseMessage(line: string): Message | null {
  try {
    return JSON.parse(line) as Message;
  } catch {
    return null;
  }
}

/**
 * The message with only its first match: there may be one per byte of the line. Quotes inside strings are escaped, so the member
 * names occur nowhere else.
 */
function withFirstSubmatch(line: string): string {
  const matches = line.indexOf('"submatches":[{');
  const start = line.indexOf('"start":', matches);
  const end = line.indexOf('}', start);
  return matches < 0 || start < 0 || end < 0 ? line : `${line.slice(0, end + 1)}]}}`;
}

function bytesOf(encoded: Encoded): Buffer {
  return 'text' in encoded ? Buffer.from(encoded.text) : Buffer.from(encoded.bytes, 'base64');
}
