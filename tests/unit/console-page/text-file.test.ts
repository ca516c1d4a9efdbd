import { describe, expect, test } from 'vitest';
import {
  describeEndings,
  editTextFile,
  formatTextFile,
  parseTextFile,
} from '../../../console/src/views/files/text-file.ts';

describe('a text file in the editor', () => {
  test.each([
    ['LF', 'a\nb\n', null],
    ['CRLF', 'a\r\nb\r\n', 'CRLF'],
    ['CR', 'a\rb\r', 'CR'],
    ['no line ending', 'a', null],
    ['a byte order mark', '\ufeffa\r\n', 'CRLF'],
    ['mixed line endings', 'a\r\nb\n\r\rc\r\n', 'mixed line endings'],
  ])('with %s stays as it is', (_name, content, description) => {
    const file = parseTextFile(content);
    expect(file.text).not.toMatch(/\r|\ufeff/);
    expect(formatTextFile(file)).toBe(content);
    expect(describeEndings(file)).toBe(description);
  });

  test.each([
    ['inserts a line', 'a\r\nb\nc\r\n', 'a\nb\nnew\nc\n', 'a\r\nb\nnew\nc\r\n'],
    ['inserts the first line', 'a\r\nb\nc\r\n', 'new\na\nb\nc\n', 'new\r\na\r\nb\nc\r\n'],
    ['removes a line', 'a\r\nb\nc\r\n', 'a\nc\n', 'a\r\nc\r\n'],
    ['joins two lines', 'a\r\nb\nc\r\n', 'a\nbc\n', 'a\r\nbc\r\n'],
    ['replaces everything', 'a\r\nb\nc', 'x', 'x'],
    ['adds a line to a file with CRLF', 'a\r\n', 'a\nb\n', 'a\r\nb\r\n'],
  ])('keeps the other endings when an edit %s', (_name, content, text, expected) => {
    expect(formatTextFile(editTextFile(parseTextFile(content), text))).toBe(expected);
  });

  test('keeps the endings between two edits', () => {
    const first = editTextFile(parseTextFile('a\r\nb\nc\r\nd\n'), 'A\nb\nc\nd\n');
    expect(formatTextFile(editTextFile(first, 'A\nb\nc\nD\ne\n'))).toBe('A\r\nb\nc\r\nD\r\ne\n');
  });
});
