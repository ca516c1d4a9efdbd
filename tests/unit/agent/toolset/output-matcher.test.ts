import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { OutputMatcher } from '../../../../src/agent/toolset/text/output-matcher.ts';

/** Whether the pattern is found in output that arrives in pieces of these sizes. */
function finds(pattern: string, isRegex: boolean, output: string, sizes: readonly number[]): boolean {
  const matcher = new OutputMatcher(pattern, isRegex);
  const bytes = Buffer.from(output);
  for (let at = 0, turn = 0; at < bytes.length; turn++) {
    const size = sizes[turn % sizes.length]!;
    if (matcher.push('stdout', bytes.subarray(at, at + size))) return true;
    at += size;
  }
  return false;
}

const sizes = fc.array(fc.integer({ min: 1, max: 20 }), { minLength: 1, maxLength: 5 });
const output = fc
  .array(fc.constantFrom('a', 'b', '\n', 'ü', '\x1b[31m', 'ready'), { maxLength: 60 })
  .map((parts) => parts.join(''));

describe('OutputMatcher', () => {
  test('finds a text wherever the output is divided', () => {
    const pattern = fc
      .array(fc.constantFrom('a', 'b', '\n', 'ü'), { minLength: 1, maxLength: 4 })
      .map((parts) => parts.join(''));
    fc.assert(
      fc.property(output, pattern, sizes, (text, wanted, parts) => {
        const plain = text.replaceAll('\x1b[31m', '');
        expect(finds(wanted, false, text, parts)).toBe(plain.includes(wanted));
      }),
      { numRuns: 500 },
    );
  });

  test('finds an expression within a line wherever the output is divided', () => {
    fc.assert(
      fc.property(output, sizes, (text, parts) => {
        const plain = text.replaceAll('\x1b[31m', '');
        expect(finds('(?:ü|ready)b', true, text, parts)).toBe(/(?:ü|ready)b/.test(plain));
      }),
      { numRuns: 300 },
    );
  });

  test('ends an expression that backtracks, also one that is only slow', () => {
    expect(() => finds('^(a+)+$', true, `${'a'.repeat(60)}b`, [1000])).toThrow('takes too long');
    expect(() => finds('(?:a|a?)+x', true, 'a'.repeat(2000), [2])).toThrow('takes too long');
  });

  test.each([
    ['', false, 'is empty'],
    ['x'.repeat(1001), false, 'longer than 1000 characters'],
    ['(', true, 'is not a regular expression'],
  ])('refuses the pattern %j', (pattern, isRegex, reason) => {
    expect(() => new OutputMatcher(pattern, isRegex)).toThrow(reason);
  });
});
