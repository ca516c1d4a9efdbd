import { BYTES_PER_TOKEN } from '../limits.ts';
import { isContinuation } from './text-pieces.ts';

/** How much of a tool's answer a model takes, and whether that is counted in tokens or in bytes. */
export interface TruncationPolicy {
  readonly mode: 'tokens' | 'bytes';
  readonly limit: number;
}

export function policyBytes({ mode, limit }: TruncationPolicy): number {
  return mode === 'tokens' ? limit * BYTES_PER_TOKEN : limit;
}

/** Tokens that so many bytes are taken for. */
export function estimateTokens(bytes: number): number {
  return Math.ceil(bytes / BYTES_PER_TOKEN);
}

/**
 * The text, or its first and last characters, at most half of the budget each, with a mark that says how much is missing between
 * them. The mark comes on top of the budget.
 */
export function truncateMiddle(text: string, budgetBytes: number, mode: TruncationPolicy['mode']): string {
  const bytes = Buffer.from(text);
  if (bytes.length <= budgetBytes) return text;
  let headEnd = Math.floor(budgetBytes / 2);
  let tailStart = bytes.length - (budgetBytes - headEnd);
  while (headEnd > 0 && isContinuation(bytes[headEnd]!)) headEnd--;
  while (tailStart < bytes.length && isContinuation(bytes[tailStart]!)) tailStart++;
  // Tokens are an estimate anyway, so the characters that are left out for being cut are not counted; characters are exact.
  const amount =
    mode === 'tokens'
      ? `${estimateTokens(bytes.length - budgetBytes)} tokens`
      : `${countCharacters(bytes.subarray(headEnd, tailStart))} chars`;
  return `${bytes.subarray(0, headEnd)}…${amount} truncated…${bytes.subarray(tailStart)}`;
}

function countCharacters(bytes: Uint8Array): number {
  return bytes.reduce((count, byte) => count + (isContinuation(byte) ? 0 : 1), 0);
}
