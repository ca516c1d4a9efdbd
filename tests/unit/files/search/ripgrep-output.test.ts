import { expect, test } from 'vitest';
import { SEARCH_MAX_LINE_BYTES, SEARCH_MAX_OUTPUT_LINE_BYTES } from '../../../../src/files/limits.ts';
import { type RelativeMatch, RipgrepOutput } from '../../../../src/files/search/ripgrep-output.ts';

type Encoded = { text: string } | { bytes: string };

function begin(path: Encoded): string {
  return `${JSON.stringify({ type: 'begin', data: { path } })}\n`;
}

function match(lines: Encoded, line_number: number, starts: number[]): string {
  const submatches = starts.map((start) => ({ match: { text: '"start":9}' }, start, end: start + 1 }));
  return `${JSON.stringify({ type: 'match', data: { path: {}, lines, line_number, absolute_offset: 0, submatches } })}\n`;
}

function end(binary_offset: number | null = null): string {
  return `${JSON.stringify({ type: 'end', data: { path: {}, binary_offset } })}\n`;
}

function read(chunks: readonly (string | Buffer)[], takesPath = (_: string) => true) {
  const found: RelativeMatch[] = [];
  let skipped = 0;
  const output = new RipgrepOutput(
    takesPath,
    (each) => found.push(each),
    () => skipped++,
  );
  for (const chunk of chunks) output.write(Buffer.from(chunk), () => true);
  return { found, skipped, isComplete: output.isComplete };
}

test('matches have the path of their file, however the output is split', () => {
  const text = [
    begin({ text: './é/a' }),
    match({ text: 'é "x"\r\n' }, 3, [3, 5]),
    end(),
    begin({ bytes: Buffer.from('./n\xff', 'latin1').toString('base64') }),
    match({ bytes: Buffer.from('\xff x\n', 'latin1').toString('base64') }, 1, [2]),
    end(),
    '{"data":{},"type":"summary"}\n',
  ].join('');
  const expected = [
    { path: '\xc3\xa9/a', line: 3, column: 4, text: 'é "x"' },
    { path: 'n\xff', line: 1, column: 3, text: '\ufffd x' },
  ];
  expect(read([text])).toEqual({ found: expected, skipped: 0, isComplete: true });
  expect(read([...Buffer.from(text)].map((byte) => Buffer.of(byte)))).toEqual({
    found: expected,
    skipped: 0,
    isComplete: true,
  });
});

test('parsing stops where it may not continue, and goes on with the rest', () => {
  const found: string[] = [];
  const output = new RipgrepOutput(
    () => true,
    ({ path }) => found.push(path),
    () => undefined,
  );
  const files = ['a', 'b', 'c'].map((text) => begin({ text }) + match({ text: 'x' }, 1, [0]) + end());
  let rest: Buffer = Buffer.from(files.join(''));
  const lengths = [rest.length];
  while (rest.length > 0) {
    rest = output.write(rest, () => found.length === 0 || lengths.length > 1);
    lengths.push(rest.length);
    if (lengths.length === 2) expect(found).toEqual(['a']);
  }
  expect(lengths).toEqual([3 * files[0]!.length, 2 * files[0]!.length, 0]);
  expect(found).toEqual(['a', 'b', 'c']);
});

test('output that breaks off is not complete', () => {
  expect(read([begin({ text: './a' }), match({ text: 'x' }, 1, [0])])).toEqual({
    found: [],
    skipped: 0,
    isComplete: false,
  });
});

test('a file that turns out to be binary has no matches', () => {
  expect(read([begin({ text: './a' }), match({ text: 'x' }, 1, [0]), end(1)]).found).toEqual([]);
});

test('skips files that are not requested', () => {
  const output = [begin({ text: './a' }), match({ text: 'x' }, 1, [0]), end()];
  expect(read([...output, begin({ text: './b' }), ...output.slice(1)], (path) => path === 'b').found).toEqual(
    [{ path: 'b', line: 1, column: 1, text: 'x' }],
  );
});

test('uses only the first match of a line', () => {
  const starts = Array.from({ length: 180_000 }, (_, index) => index + 2);
  const output = match({ text: `${'x'.repeat(180_010)}\n` }, 1, starts);
  expect(output.length).toBeGreaterThan(SEARCH_MAX_OUTPUT_LINE_BYTES);
  const { found } = read([begin({ text: './a' }), output, match({ text: 'y' }, 2, [0]), end()]);
  expect(found.map(({ line, column }) => [line, column])).toEqual([
    [1, 3],
    [2, 1],
  ]);
});

test.each([SEARCH_MAX_LINE_BYTES, SEARCH_MAX_OUTPUT_LINE_BYTES])(
  'skips a line of more than %d bytes and reports its file',
  (length) => {
    const long = match({ text: `${'x'.repeat(length + 1)}\n` }, 1, [0]);
    const file = [begin({ text: './a' }), long, long, match({ text: 'y' }, 2, [0])];
    const { found, skipped } = read([
      ...file,
      end(),
      begin({ text: './b' }),
      match({ text: 'y' }, 2, [0]),
      end(),
    ]);
    expect(found.map(({ path, line }) => `${path}:${line}`)).toEqual(['a:2', 'b:2']);
    expect(skipped).toBe(1);
    expect(read([...file, end(9)]).skipped).toBe(0);
    expect(read([...file, end()], () => false).skipped).toBe(0);
  },
);
