import { BYTES_PER_TOKEN, MAX_REASON_IN_TEXT, TEXT_ALLOWANCE } from '../limits.ts';
import type { NetworkDenial, NetworkDenials } from '../session/network-decisions.ts';
import { type HeadTailBuffer, omissionMarker } from './head-tail-buffer.ts';
import { estimateTokens, policyBytes, type TruncationPolicy, truncateMiddle } from './truncate.ts';

/** The facts of a call's result. */
export interface CallFacts {
  /** The id of the result; null for none. */
  readonly chunkId: string | null;
  readonly wallTimeMs: number;
  /** Null when unknown. */
  readonly exitCode: number | null;
  /** Null when no output can follow. */
  readonly sessionId: number | null;
  readonly output: HeadTailBuffer;
  readonly network: NetworkDenials;
}

/** The same facts for models that accept structured results. Members that do not apply are absent. */
export interface StructuredOutput {
  readonly chunk_id?: string;
  readonly wall_time_seconds: number;
  readonly exit_code?: number;
  readonly session_id?: number;
  readonly original_token_count: number;
  readonly network_denials?: readonly NetworkDenial[];
  readonly output: string;
}

/** A result in both forms. */
interface ModelText {
  readonly text: string;
  readonly structured: StructuredOutput;
}

/**
 * Formats a call's result for the model: a header of short lines, then the output. The output is truncated in the middle to the
 * requested tokens and the policy. The whole text stays near the policy, so that it need not be truncated again.
 */
export function modelText(facts: CallFacts, maxTokens: number, policy: TruncationPolicy): ModelText {
  const tokens = estimateTokens(facts.output.totalBytes);
  const header = headerOf(facts, tokens);
  const whole = decode(facts.output.render());
  const allowedBytes = Math.floor(policyBytes(policy) * TEXT_ALLOWANCE);
  let budget = Math.min(maxTokens * BYTES_PER_TOKEN, policyBytes(policy));
  let output = limitedOutput(whole, facts.output.omittedBytes, tokens, budget, policy.mode);
  let excess = Buffer.byteLength(header) + Buffer.byteLength(output) - allowedBytes;
  while (excess > 0 && budget > 0) {
    budget = Math.max(0, Math.min(budget, Buffer.byteLength(whole)) - excess);
    output = limitedOutput(whole, facts.output.omittedBytes, tokens, budget, policy.mode);
    excess = Buffer.byteLength(header) + Buffer.byteLength(output) - allowedBytes;
  }
  return { text: header + output, structured: structuredOf(facts, tokens, output) };
}

/** Decodes bytes; invalid UTF-8 becomes replacement characters. */
export function decode(bytes: Uint8Array): string {
  return DECODER.decode(bytes);
}

const DECODER = new TextDecoder('utf-8', { ignoreBOM: true });

function headerOf({ chunkId, wallTimeMs, exitCode, sessionId, network }: CallFacts, tokens: number): string {
  const lines = [
    ...(chunkId === null ? [] : [`Chunk ID: ${chunkId}`]),
    `Wall time: ${(wallTimeMs / 1000).toFixed(4)} seconds`,
    ...(exitCode === null ? [] : [`Process exited with code ${exitCode}`]),
    ...(sessionId === null ? [] : [`Process running with session ID ${sessionId}`]),
    ...networkLines(network),
    `Original token count: ${tokens}`,
    'Output:',
  ];
  return `${lines.join('\n')}\n`;
}

function networkLines({ denials, omitted }: NetworkDenials): string[] {
  const lines = denials.map(({ host, port, reason }) => {
    const shown = PROXY_REASONS.get(reason) ?? reason.slice(0, MAX_REASON_IN_TEXT);
    return `Network access denied: ${host}:${port} (${shown})`;
  });
  return omitted === 0 ? lines : [...lines, `Network access denied: ${omitted} more times`];
}

/** The codes of a proxy in words. */
const PROXY_REASONS: ReadonlyMap<string, string> = new Map([
  ['not_allowed', 'this host is not allowed'],
  [
    'not_allowed_local',
    'it has no public address; the setting proxy.allowLocalBinding allows local and private addresses',
  ],
  ['denied', 'this host is forbidden'],
  ['policy_denied', 'this host is not allowed'],
  ['method_not_allowed', 'this method is not allowed'],
  ['mitm_required', 'only plain HTTP is allowed'],
]);

function structuredOf(facts: CallFacts, tokens: number, output: string): StructuredOutput {
  return {
    ...(facts.chunkId === null ? {} : { chunk_id: facts.chunkId }),
    wall_time_seconds: facts.wallTimeMs / 1000,
    ...(facts.exitCode === null ? {} : { exit_code: facts.exitCode }),
    ...(facts.sessionId === null ? {} : { session_id: facts.sessionId }),
    original_token_count: tokens,
    ...(facts.network.denials.length === 0 ? {} : { network_denials: facts.network.denials }),
    output,
  };
}

/** Truncates the output to a budget. The header reports omitted bytes, because omitted lines cannot be counted. */
function limitedOutput(
  whole: string,
  omittedBytes: number,
  tokens: number,
  budget: number,
  mode: TruncationPolicy['mode'],
): string {
  const shortened = truncateMiddle(whole, budget, mode);
  if (shortened === whole) return whole;
  const warning = `Warning: truncated output (original token count: ${tokens})\n`;
  if (omittedBytes === 0) return `${warning}Total output lines: ${countLines(whole)}\n\n${shortened}`;
  const marker = omissionMarker(omittedBytes);
  return shortened.includes(marker) ? `${warning}\n${shortened}` : `${warning}${marker}\n\n${shortened}`;
}

function countLines(text: string): number {
  const breaks = text.match(/\n/g)?.length ?? 0;
  return text === '' || text.endsWith('\n') ? breaks : breaks + 1;
}
