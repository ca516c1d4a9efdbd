import { BYTES_PER_TOKEN } from '../limits.ts';
import { isContinuation } from './text-pieces.ts';

/** How much of a tool's result a model accepts, in tokens or in bytes. */
export interface TruncationPolicy {
  readonly mode: 'tokens' | 'bytes';
  readonly limit: number;
}

export function policyBytes({ mode, limit }: TruncationPolicy): number {
  return mode === 'tokens' ? limit * BYTES_PER_TOKEN : limit;
}

/** Estimates the tokens of a number of bytes. */
export function estimateTokens(bytes: number): number {
  return Math.ceil(bytes / BYTES_PER_TOKEN);
}

/**
 * Truncates a text in the middle: it keeps first and last characters, at most half of the budget each, and inserts a mark with the
 * omitted amount. The mark does not count towards the budget.
 */
export function truncateMiddle(text: string, budgetBytes: number, mode: TruncationPolicy['mode']): string {
  const bytes = Buffer.from(text);
  if (bytes.length <= budgetBytes) return text;
  let headEnd = Math.floor(budgetBytes / 2);
  let tailStart = bytes.length - (budgetBytes - headEnd);
  while (headEnd > 0 && isContinuation(bytes[headEnd]!)) headEnd--;
  while (tailStart < bytes.length && isContinuation(bytes[tailStart]!)) tailStart++;
  // Tokens are an estimate, so they ignore characters that the cut would split; characters are exact.
  const amount =
    mode === 'tokens'
      ? `${estimateTokens(bytes.length - budgetBytes)} tokens`
      : `${countCharacters(bytes.subarray(headEnd, tailStart))} chars`;
  return `${bytes.subarray(0, headEnd)}…${amount} truncated…${bytes.subarray(tailStart)}`;
}

function countCharacters(bytes: Uint8Array): number {
  return bytes.reduce((count, byte) => count + (isContinuation(byte) ? 0 : 1), 0);
}
