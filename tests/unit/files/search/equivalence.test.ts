import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Collector } from '../../../../src/files/search/collector.ts';
import { javaScriptPattern } from '../../../../src/files/search/pattern.ts';
import type { SearchMatch, SearchQuery } from '../../../../src/files/search/query.ts';
import { searchTree } from '../../../../src/files/search/tree.ts';
import { hasRipgrep, lines, makeTree, queryFor, searchWith } from './support.ts';

const NAMES = [
  'a',
  'b',
  'a.ts',
  'b.ts',
  '.h',
  '.h.ts',
  'dist',
  '(g)',
  'x y',
  'caf\xc3\xa9',
  'n\xff',
  '[id]',
  '#c',
  '!d',
];
const GLOBS = [
  ...[
    '*.ts',
    '*',
    'dist',
    'dist/',
    '/a',
    '/a/*',
    'a/**',
    '**/b',
    '**/dist/**',
    'a/**/b',
    '(g)/**',
    'x*',
    '\\[id\\]',
  ],
  ...[
    '{a,b}.ts',
    '*.{ts,js}',
    '?',
    '[a-b]',
    '[!a]*',
    '#c',
    '!d',
    'caf?',
    '*é',
    '.h*',
    './a/*',
    'x y',
    'b/a/',
  ],
];
const IGNORE_LINES = [
  '*.ts',
  'dist',
  'dist/',
  '/a',
  '/a/b',
  '!a.ts',
  '!dist',
  'a/*',
  '**/b',
  '!.h',
  'x y',
  '\\#c',
  '# c',
  '',
  '(g)/',
];
const PATTERNS = [
  ...[
    'foo',
    '^foo',
    'foo$',
    'fo+',
    'f.o',
    '\\bfoo\\b',
    '\\w+o',
    '(foo|bar)',
    '[^f]oo',
    '\\d+',
    '\\s',
    '^$',
    'x{2}',
    'é',
  ],
  ...[
    '[[:digit:]]',
    '(?i)FOO',
    '\\W',
    '\\S+$',
    'b\\.r',
    '[]a]',
    '\\x{e9}',
    '(?P<n>ba)r',
    '',
    '\\.',
    '\\D',
    'foo.$',
    '[^\\s]+$',
    '[$]|o$',
    'a|',
    '-foo',
  ],
];
const TEXTS = [
  'foo',
  'bar',
  ' ',
  'é',
  '1',
  '\n',
  '\r\n',
  'FOO',
  'b.r',
  'xx',
  '\xff',
  '\t',
  ']',
  '😀',
  '_',
  '\u2028',
  'foo\n',
  '-',
];

const name = fc.constantFrom(...NAMES);
const path = fc.array(name, { minLength: 1, maxLength: 4 }).map((names) => names.join('/'));
const content = fc
  .array(fc.constantFrom(...TEXTS), { maxLength: 12 })
  .map((parts) => Buffer.concat(parts.map((part) => Buffer.from(part, part === '\xff' ? 'latin1' : 'utf8'))));
const ignoreFile = fc.tuple(
  fc.constantFrom('', 'a/', 'dist/', 'a/b/'),
  fc.constantFrom('.gitignore', '.ignore', '.rgignore', '.git/info/exclude'),
  fc.array(fc.constantFrom(...IGNORE_LINES), { maxLength: 4 }),
);
// Most searches should find something.
const globs = fc.oneof(
  { weight: 2, arbitrary: fc.constant([]) },
  { weight: 1, arbitrary: fc.array(fc.constantFrom(...GLOBS), { maxLength: 2 }) },
);
const seldom = fc.nat(4).map((number) => number === 0);
const options = fc.record({
  literal: seldom,
  caseSensitive: fc.boolean(),
  include: globs,
  exclude: globs,
  respectIgnoreFiles: fc.boolean(),
  includeHidden: fc.boolean(),
});

// Runs only where ripgrep is installed; the support file reports when it is not.
test.runIf(hasRipgrep)('both engines return the same results', { timeout: 120_000 }, async () => {
  const files = fc.array(fc.tuple(path, content), { minLength: 1, maxLength: 12 });
  const ignoreFiles = fc.array(ignoreFile, { maxLength: 3 });
  const root = fc.constantFrom('', '/a', '/dist');
  await fc.assert(
    fc.asyncProperty(
      files,
      ignoreFiles,
      root,
      fc.constantFrom(...PATTERNS),
      options,
      async (entries, ignoreEntries, below, pattern, changes) => {
        const tree = makeTree(treeOf(entries, ignoreEntries));
        const query = queryFor(`${tree}${below}`, pattern, changes);
        const result = await searchWith('ripgrep').search(query, new AbortController().signal);
        expect(result.engine).toBe('ripgrep');
        expect(lines(searchBuiltin(query), tree)).toEqual(lines(result.matches, tree));
      },
    ),
    { numRuns: 100 },
  );
});

/** Runs the builtin engine without its thread. */
function searchBuiltin(query: SearchQuery): SearchMatch[] {
  const collector = new Collector(query.maxResults);
  searchTree(query, true, javaScriptPattern(query), {
    found: (matches) => matches.forEach((match) => void collector.add(match)),
    tooLarge: () => expect.unreachable('no file is that large'),
    unreadable: () => expect.unreachable('every file is readable'),
  });
  return collector.sorted();
}

/** The files that can exist together: none is also a parent directory of another. */
function treeOf(
  entries: readonly (readonly [string, Buffer])[],
  ignoreEntries: readonly (readonly [string, string, readonly string[]])[],
): Record<string, Buffer | string> {
  const tree: Record<string, Buffer | string> = { 'a/x': 'foo\n', 'dist/x': 'foo\n' };
  for (const [folder, file, rules] of ignoreEntries) tree[`${folder}${file}`] = `${rules.join('\n')}\n`;
  for (const [file, bytes] of entries) {
    const clashes = Object.keys(tree).some(
      (other) => other.startsWith(`${file}/`) || file.startsWith(`${other}/`),
    );
    if (!clashes) tree[file] = bytes;
  }
  return tree;
}
