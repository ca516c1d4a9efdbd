import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { replaceExactly } from '../../../../src/agent/toolset/text/exact-edit.ts';

const word = fc.constantFrom('a', 'ab', '$&', '$1', '\n', ' ', 'ü', '\\');
const text = fc.array(word, { maxLength: 30 }).map((words) => words.join(''));
const needle = fc.array(word, { minLength: 1, maxLength: 3 }).map((words) => words.join(''));

describe('replaceExactly', () => {
  test('replaces the only occurrence, and nothing else', () => {
    fc.assert(
      fc.property(text, needle, text, text, (before, wanted, after, replacement) => {
        const content = before + wanted + after;
        const count = [...content].filter((_, at) => content.startsWith(wanted, at)).length;
        const result = replaceExactly(content, wanted, replacement, false);
        if (count === 1) expect(result).toMatchObject({ text: before + replacement + after, count: 1 });
        else expect(result).toMatchObject({ problem: 'severalMatches', count });
      }),
      { numRuns: 500 },
    );
  });

  test('with all, replaces every occurrence', () => {
    fc.assert(
      fc.property(text, needle, text, (content, wanted, replacement) => {
        const parts = content.split(wanted);
        const result = replaceExactly(content, wanted, replacement, true);
        if (parts.length === 1) expect(result).toMatchObject({ problem: 'noMatch' });
        else expect(result).toMatchObject({ text: parts.join(replacement), count: parts.length - 1 });
      }),
      { numRuns: 500 },
    );
  });

  test('keeps CRLF: an edit with LF is the edit of the same file with LF', () => {
    fc.assert(
      fc.property(text, needle, text, (content, wanted, replacement) => {
        fc.pre(content.includes('\n'));
        const crlf = (value: string) => value.replaceAll('\n', '\r\n');
        const plain = replaceExactly(content, wanted, replacement, true);
        const windows = replaceExactly(crlf(content), wanted, replacement, true);
        if ('problem' in plain) expect(windows).toMatchObject({ problem: plain.problem });
        else
          expect(windows).toMatchObject({ text: crlf(plain.text), count: plain.count, lines: plain.lines });
      }),
      { numRuns: 500 },
    );
  });

  test('names the lines of several matches, and the nearest line of none', () => {
    const content = 'one\ntwo\n  three();\ntwo\n';
    expect(replaceExactly(content, 'two', 'x', false)).toMatchObject({ count: 2, lines: [2, 4] });
    expect(replaceExactly(content, '\tthree();', 'x', false)).toMatchObject({
      nearest: { line: 3, isBlankDifference: true },
    });
    expect(replaceExactly(content, 'threw();', 'x', false)).toMatchObject({
      nearest: { line: 3, isBlankDifference: false },
    });
    expect(replaceExactly(content, 'something else', 'x', false)).toMatchObject({ nearest: null });
  });
});
