import { describe, expect, test } from 'vitest';
import { UNREAD_BYTES } from '../../../../src/agent/limits.ts';
import { HeadTailBuffer } from '../../../../src/agent/output/head-tail-buffer.ts';
import { type CallFacts, modelText } from '../../../../src/agent/output/model-text.ts';
import type { TruncationPolicy } from '../../../../src/agent/output/truncate.ts';

const TOKENS: TruncationPolicy = { mode: 'tokens', limit: 10_000 };

function buffer(text: string | Uint8Array, capacity = UNREAD_BYTES): HeadTailBuffer {
  const output = new HeadTailBuffer(capacity);
  output.push(Buffer.from(text as string));
  return output;
}

function facts(output: HeadTailBuffer, changes: Partial<CallFacts> = {}): CallFacts {
  const network = { denials: [], omitted: 0 };
  return {
    chunkId: '1b7187',
    wallTimeMs: 12.34567,
    exitCode: 0,
    sessionId: null,
    output,
    network,
    ...changes,
  };
}

/** What `seq 1 last` prints. */
function numbers(last: number): string {
  return Array.from({ length: last }, (_, index) => `${index + 1}\n`).join('');
}

describe('the header', () => {
  test('of an ended command', () => {
    expect(modelText(facts(buffer('hi\n')), 10_000, TOKENS).text).toBe(
      'Chunk ID: 1b7187\nWall time: 0.0123 seconds\nProcess exited with code 0\nOriginal token count: 1\nOutput:\nhi\n',
    );
  });

  test('of a running command', () => {
    const running = facts(buffer(''), { exitCode: null, sessionId: 91_002, wallTimeMs: 1501 });
    expect(modelText(running, 10_000, TOKENS).text).toBe(
      'Chunk ID: 1b7187\nWall time: 1.5010 seconds\nProcess running with session ID 91002\nOriginal token count: 0\nOutput:\n',
    );
  });

  test('lists denied hosts', () => {
    const denials = [
      { host: 'a.example', port: 80, reason: 'not_allowed' },
      { host: 'b.example', port: 443, reason: `no ${'x'.repeat(300)}` },
      { host: 'c.example', port: 443, reason: 'constructor' },
    ];
    const { text, structured } = modelText(
      facts(buffer(''), { network: { denials, omitted: 3 } }),
      10_000,
      TOKENS,
    );
    expect(text.split('\n').filter((line) => line.startsWith('Network'))).toEqual([
      'Network access denied: a.example:80 (this host is not allowed)',
      `Network access denied: b.example:443 (no ${'x'.repeat(197)})`,
      'Network access denied: c.example:443 (constructor)',
      'Network access denied: 3 more times',
    ]);
    expect(structured.network_denials).toEqual(denials);
  });

  test('has no lines for absent facts', () => {
    const bare = facts(buffer('x'), { chunkId: null, exitCode: null });
    expect(modelText(bare, 10_000, TOKENS)).toEqual({
      text: 'Wall time: 0.0123 seconds\nOriginal token count: 1\nOutput:\nx',
      structured: { wall_time_seconds: 0.01234567, original_token_count: 1, output: 'x' },
    });
  });

  test('has the same facts as the structured result', () => {
    const all = facts(buffer('x'), { exitCode: 3, sessionId: 1000 });
    expect(modelText(all, 10_000, TOKENS).structured).toEqual({
      chunk_id: '1b7187',
      wall_time_seconds: 0.01234567,
      exit_code: 3,
      session_id: 1000,
      original_token_count: 1,
      output: 'x',
    });
  });
});

// The numbers and texts are those of the reference for the same output.
describe('output above the budget', () => {
  function outputOf(output: HeadTailBuffer, maxTokens: number, policy = TOKENS): string {
    return modelText(facts(output), maxTokens, policy).structured.output;
  }

  test('is truncated in the middle', () => {
    const output = outputOf(buffer(numbers(1000)), 50);
    expect(output).toMatch(
      /^Warning: truncated output \(original token count: 974\)\nTotal output lines: 1000\n\n1\n2\n/,
    );
    expect(output).toMatch(/\n36\n3…924 tokens truncated…76\n977\n/);
    expect(output.endsWith('\n999\n1000\n')).toBe(true);
  });

  test('is only the mark for a budget of 0', () => {
    expect(outputOf(buffer(numbers(1000)), 0)).toBe(
      'Warning: truncated output (original token count: 974)\nTotal output lines: 1000\n\n…974 tokens truncated…',
    );
  });

  test('is limited by the policy of the model', () => {
    const output = outputOf(buffer(numbers(20_000)), 100_000);
    expect(output).toContain('(original token count: 27224)\nTotal output lines: 20000\n');
    expect(output).toContain('…17224 tokens truncated…');
  });

  test('has whole characters', () => {
    expect(outputOf(buffer('é'.repeat(40)), 10)).toBe(
      `Warning: truncated output (original token count: 20)\nTotal output lines: 1\n\n${'é'.repeat(10)}…10 tokens truncated…${'é'.repeat(10)}`,
    );
    expect(outputOf(buffer('€'.repeat(20)), 5)).toBe(
      `Warning: truncated output (original token count: 15)\nTotal output lines: 1\n\n€€€…10 tokens truncated…€€€`,
    );
  });

  test('counts omitted characters with a policy in bytes', () => {
    const policy: TruncationPolicy = { mode: 'bytes', limit: 2000 };
    expect(outputOf(buffer('é'.repeat(1100)), 10_000, policy)).toBe(
      `Warning: truncated output (original token count: 550)\nTotal output lines: 1\n\n${'é'.repeat(500)}…100 chars truncated…${'é'.repeat(500)}`,
    );
  });

  test('reports bytes that were not kept before the output, with their number', () => {
    const output = outputOf(buffer(numbers(400_000)), 50);
    expect(output).toMatch(
      /^Warning: truncated output \(original token count: 672224\)\n\.\.\. 1640319 bytes omitted \.\.\.\n\n1\n2\n/,
    );
    expect(output).toContain('\n36\n3…262102 tokens truncated…6\n399987\n');
  });

  test('does not repeat the mark of omitted bytes', () => {
    const output = outputOf(buffer('x'.repeat(2000), 1000), 240);
    expect(output.match(/bytes omitted/g)).toHaveLength(1);
    expect(outputOf(buffer('x'.repeat(2000), 1000), 10_000)).toBe(
      `${'x'.repeat(500)}\n... 1000 bytes omitted ...\n${'x'.repeat(500)}`,
    );
  });

  test('stays near the policy including the header', () => {
    const policy: TruncationPolicy = { mode: 'bytes', limit: 400 };
    for (const length of [350, 390, 400, 401, 5000]) {
      const { text } = modelText(facts(buffer('y'.repeat(length))), 10_000, policy);
      expect(Buffer.byteLength(text)).toBeLessThanOrEqual(480);
    }
  });

  test('keeps the header with a policy that is too small for it', () => {
    const { text } = modelText(facts(buffer('abc')), 10_000, { mode: 'bytes', limit: 2 });
    expect(text).toContain('Output:\nWarning: truncated output (original token count: 1)');
    expect(text.endsWith('…3 chars truncated…')).toBe(true);
  });

  test('replaces invalid UTF-8', () => {
    expect(outputOf(buffer(Uint8Array.of(0x61, 0xff, 0x62)), 100)).toBe('a\ufffdb');
  });
});
