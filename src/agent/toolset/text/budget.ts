import { BYTES_PER_TOKEN } from '../../limits.ts';
import { decode } from '../../output/model-text.ts';
import { isContinuation } from '../../output/text-pieces.ts';
import { plainText } from './plain-text.ts';
import { shownText } from './visible.ts';

/** Output as a text for a model. */
interface ModelOutput {
  readonly text: string;
  /** Bytes that the text lacks between its beginning and its end. */
  readonly omittedBytes: number;
  readonly isBinary: boolean;
}

/** Bytes of a number of tokens. */
export function bytesOfTokens(tokens: number): number {
  return Math.max(MIN_TEXT_BYTES, tokens * BYTES_PER_TOKEN);
}

/** Formats the beginning and the end of an output within a budget. Binary output is described. */
export function modelOutput(
  head: Uint8Array,
  tail: Uint8Array,
  omittedBytes: number,
  budgetBytes: number,
): ModelOutput {
  if (isBinary(head) && !isTextWithNul(head)) {
    return {
      text: describeBinary(head, head.length + omittedBytes + tail.length),
      omittedBytes: 0,
      isBinary: true,
    };
  }
  const first = outputText(head);
  const last = tail.length === 0 ? '' : outputText(tail);
  const { text, omittedBytes: cut } = headAndTail(first, last, omittedBytes, budgetBytes);
  return { text, omittedBytes: cut, isBinary: false };
}

/** Whether bytes are not text: they contain NUL, or many bytes that are not UTF-8. */
export function isBinary(bytes: Uint8Array): boolean {
  const sample = bytes.subarray(0, BINARY_SAMPLE_BYTES);
  if (sample.includes(0)) return true;
  const invalid = decode(sample.subarray(0, Math.max(0, sample.length - 3))).split('\uFFFD').length - 1;
  return invalid > 8 && invalid * 10 > sample.length;
}

/** Whether bytes are text except for some NUL, such as the output of `find -print0`. */
function isTextWithNul(bytes: Uint8Array): boolean {
  const sample = bytes.subarray(0, BINARY_SAMPLE_BYTES);
  const others = sample.filter((byte) => byte !== 0);
  return (sample.length - others.length) * 4 <= sample.length && !isBinary(others) && kindOf(sample) === null;
}

/** What a terminal would show. NUL and characters that hide or reorder text are shown as escapes. */
function outputText(bytes: Uint8Array): string {
  return shownText(plainText(decode(bytes).replaceAll('\0', '\\0')));
}

function kindOf(bytes: Uint8Array): string | null {
  const start = Buffer.from(bytes.subarray(0, 16)).toString('hex');
  return SIGNATURES.find(({ hex }) => start.startsWith(hex))?.kind ?? null;
}

/** Describes bytes that are not text. */
export function describeBinary(bytes: Uint8Array, size: number): string {
  const start = Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(16, bytes.length)).toString('hex');
  const kind = kindOf(bytes);
  const shown = start.match(/../g)?.join(' ') ?? '';
  return `[binary data${kind === null ? '' : `, ${kind}`}: ${size} bytes that begin with ${shown}]`;
}

/** The first and last lines of a text that fit the budget, and a line that says how much is missing between them. */
function headAndTail(
  head: string,
  tail: string,
  omittedBytes: number,
  budgetBytes: number,
): { readonly text: string; readonly omittedBytes: number } {
  const first = Buffer.from(head);
  const last = Buffer.from(tail);
  if (omittedBytes === 0 && first.length + last.length <= budgetBytes)
    return { text: head + tail, omittedBytes: 0 };
  const all = omittedBytes === 0 ? Buffer.concat([first, last]) : null;
  const half = Math.floor(budgetBytes / 2);
  const start = cutBefore(all ?? first, half);
  const end = cutAfter(all ?? last, half);
  const missing =
    (all === null ? omittedBytes + first.length + last.length : all.length) - start.length - end.length;
  const gap = `\n[... ${missing} bytes omitted ...]\n`;
  return { text: `${start.toString().replace(/\n$/, '')}${gap}${end}`, omittedBytes: missing };
}

function cutBefore(bytes: Buffer, limit: number): Buffer {
  if (bytes.length <= limit) return bytes;
  const line = bytes.lastIndexOf(NEWLINE, limit - 1) + 1;
  let end = line > limit - MAX_CUT_BYTES && line > 0 ? line : limit;
  while (end > 0 && isContinuation(bytes[end]!)) end--;
  return bytes.subarray(0, end);
}

function cutAfter(bytes: Buffer, limit: number): Buffer {
  if (bytes.length <= limit) return bytes;
  let start = bytes.length - limit;
  const line = bytes.indexOf(NEWLINE, start) + 1;
  if (line > 0 && line < start + MAX_CUT_BYTES && line < bytes.length) start = line;
  while (start < bytes.length && isContinuation(bytes[start]!)) start++;
  return bytes.subarray(start);
}

const NEWLINE = 0x0a;
/** Smallest budget. A smaller one could not show a line. */
const MIN_TEXT_BYTES = 256;
/** How much of the budget a cut at a line may leave unused. */
const MAX_CUT_BYTES = 2_048;
const BINARY_SAMPLE_BYTES = 8_192;

const SIGNATURES = [
  { hex: '89504e47', kind: 'a PNG image' },
  { hex: 'ffd8ff', kind: 'a JPEG image' },
  { hex: '47494638', kind: 'a GIF image' },
  { hex: '25504446', kind: 'a PDF document' },
  { hex: '504b0304', kind: 'a ZIP archive' },
  { hex: '1f8b', kind: 'gzip data' },
  { hex: '7f454c46', kind: 'an ELF program' },
  { hex: '53514c69746520', kind: 'an SQLite database' },
];
