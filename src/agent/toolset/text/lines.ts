import { isContinuation } from '../../output/text-pieces.ts';

const NEWLINE = 0x0a;

/** As many items from the first on as fit a budget of bytes, with their lines. At least one. */
export function fitting<T>(
  items: readonly T[],
  budgetBytes: number,
  lineOf: (item: T) => string,
): { readonly items: readonly T[]; readonly lines: readonly string[] } {
  const lines: string[] = [];
  let bytes = 0;
  for (const item of items) {
    const line = lineOf(item);
    bytes += Buffer.byteLength(line) + 1;
    if (lines.length > 0 && bytes > budgetBytes) break;
    lines.push(line);
  }
  return { items: items.slice(0, lines.length), lines };
}

/** The last lines of a text within a limit of bytes. A line that is cut at the limit is left out, unless it is the only one. */
export function lastLines(bytes: Uint8Array, lines: number, maxBytes: number): Uint8Array {
  let start = bytes.length;
  let found = 0;
  // The line break at the end belongs to the last line.
  for (let index = bytes.length - 2; index >= 0 && bytes.length - index <= maxBytes; index--) {
    if (bytes[index] !== NEWLINE) continue;
    start = index + 1;
    if (++found === lines) return bytes.subarray(start);
  }
  if (bytes.length <= maxBytes) return bytes;
  if (found > 0) return bytes.subarray(start);
  start = bytes.length - maxBytes;
  while (start < bytes.length && isContinuation(bytes[start]!)) start++;
  return bytes.subarray(start);
}

/** How many lines a text has. The last one needs no line break. */
export function countLines(bytes: Uint8Array): number {
  let count = bytes.length > 0 && bytes.at(-1) !== NEWLINE ? 1 : 0;
  for (let index = bytes.indexOf(NEWLINE); index >= 0; index = bytes.indexOf(NEWLINE, index + 1)) count++;
  return count;
}
