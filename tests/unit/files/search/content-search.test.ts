import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import {
  SEARCH_CONCURRENCY,
  SEARCH_INCOMPLETE_FILES,
  SEARCH_MAX_FILE_BYTES,
  SEARCH_MAX_LINE_BYTES,
} from '../../../../src/files/limits.ts';
import { nativePathOfBytes } from '../../../../src/files/native-path.ts';
import { ContentSearch } from '../../../../src/files/search/content-search.ts';
import { javaScriptPattern } from '../../../../src/files/search/pattern.ts';
import type { SearchMatch, SearchResult } from '../../../../src/files/search/query.ts';
import { searchTree } from '../../../../src/files/search/tree.ts';
import { childPids, isAlive } from '../../../support/children.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { ENGINES, hasRipgrep, lines, makeTree, queryFor, searchWith } from './support.ts';

const WANTED = new AbortController().signal;

/** A search that ends only by its time limit, with enough time to find something even on a busy machine. */
async function searchUntilTimeout(
  search: ContentSearch,
  root: string,
  pattern: string,
): Promise<SearchResult> {
  for (const timeoutMs of [500, 4_000]) {
    const result = await search.search(queryFor(root, pattern, { timeoutMs }), WANTED);
    if (result.matches.length > 0) return result;
  }
  return await search.search(queryFor(root, pattern), WANTED);
}

/** A directory with an `rg` that runs this script. FOLDER in the script is replaced by the directory. */
function fakeRipgrep(script: string): { search: ContentSearch; folder: string } {
  const folder = makeTree({});
  writeFileSync(join(folder, 'rg'), script.replaceAll('FOLDER', folder));
  chmodSync(join(folder, 'rg'), 0o755);
  return { search: new ContentSearch(`relative:/nowhere:${folder}`), folder };
}

describe.each(ENGINES)('the %s engine', (engine) => {
  async function find(
    root: string,
    ...[pattern, changes]: Parameters<typeof queryFor> extends [string, ...infer Rest] ? Rest : never
  ) {
    const result = await searchWith(engine).search(queryFor(root, pattern, changes), WANTED);
    expect(result.engine).toBe(engine);
    return { lines: lines(result.matches, root), truncated: result.truncated };
  }

  test('finds lines, sorted by path in byte order and then by line', async () => {
    const root = makeTree({
      b: 'foo\nx\nfoo',
      'a/b': 'é foo',
      'a.x': 'foo',
      'caf\xc3\xa9': 'foo',
      'n\xff/y': 'foo',
    });
    expect(await find(root, 'fo+')).toEqual({
      lines: [
        'a.x:1:1:foo',
        'a/b:1:4:é foo',
        'b:1:1:foo',
        'b:3:1:foo',
        'caf\xc3\xa9:1:1:foo',
        'n\xff/y:1:1:foo',
      ],
      truncated: null,
    });
  });

  test('returns lines with and without a trailing line ending', async () => {
    const root = makeTree({ a: 'é x\nyz\n\nlast' });
    expect((await find(root, '$')).lines).toEqual(['a:1:5:é x', 'a:2:3:yz', 'a:3:1:', 'a:4:5:last']);
  });

  test('accepts a pattern that looks like an option', async () => {
    const root = makeTree({ a: 'x --version\n' });
    expect((await find(root, '--version')).lines).toEqual(['a:1:3:x --version']);
  });

  test('searches for literal text and ignores case on request', async () => {
    const root = makeTree({ a: 'A.B(\naxb(\n' });
    expect((await find(root, 'a.b(', { literal: true })).lines).toEqual([]);
    expect((await find(root, 'a.b(', { literal: true, caseSensitive: false })).lines).toEqual(['a:1:1:A.B(']);
  });

  test('searches a file by its path even if it would be excluded from a tree', async () => {
    const root = makeTree({ '.gitignore': '*', '.x': 'foo', y: 'foo' });
    expect((await find(`${root}/.x`, 'foo', { exclude: ['.x'], include: ['y'] })).lines).toHaveLength(1);
    symlinkSync('.x', join(root, 'link'));
    expect((await find(`${root}/link`, 'foo')).lines).toHaveLength(1);
  });

  test('skips binary files, also those named by their path', async () => {
    const root = makeTree({ a: 'foo\0', b: `foo\n${'x\n'.repeat(100_000)}\0`, c: 'foo' });
    expect((await find(root, 'foo')).lines).toEqual(['c:1:1:foo']);
    expect((await find(`${root}/a`, 'foo')).lines).toEqual([]);
  });

  test('follows no links below the root', async () => {
    const root = makeTree({ 'real/a': 'foo' });
    symlinkSync('real', join(root, 'directory'));
    symlinkSync('real/a', join(root, 'file'));
    symlinkSync('.', join(root, 'real/loop'));
    expect((await find(root, 'foo')).lines).toEqual(['real/a:1:1:foo']);
    expect((await find(join(root, 'directory'), 'foo')).lines).toHaveLength(1);
  });

  test('does not wait for FIFOs', async () => {
    const root = makeTree({ a: 'foo' });
    execFileSync('mkfifo', [join(root, 'fifo')]);
    expect((await find(root, 'foo')).lines).toEqual(['a:1:1:foo']);
    await expect(find(join(root, 'fifo'), 'foo')).rejects.toMatchObject({
      kind: 'refused',
      message: 'path is neither a file nor a directory',
    });
  });

  test('excludes hidden files and ignored paths', async () => {
    const root = makeTree({
      '.gitignore': '*.log\n!.kept\n',
      'sub/.ignore': '!b.log\n',
      '.git/info/exclude': 'excluded\n',
      '.git/config': 'foo',
      'a.log': 'foo',
      'sub/b.log': 'foo',
      'sub/.kept': 'foo',
      excluded: 'foo',
    });
    const names = async (changes: Parameters<typeof queryFor>[2]) =>
      (await find(root, 'foo', changes)).lines.map((line) => line.split(':')[0]);
    expect(await names({})).toEqual(['sub/b.log']);
    expect(await names({ includeHidden: true })).toEqual(['sub/.kept', 'sub/b.log']);
    expect(await names({ respectIgnoreFiles: false })).toEqual(['a.log', 'excluded', 'sub/b.log']);
    expect(await names({ respectIgnoreFiles: false, includeHidden: true, include: ['.git/'] })).toEqual([
      '.git/config',
    ]);
  });

  test('ignores unreadable ignore files and searches everything else', async () => {
    const root = makeTree({ a: 'foo', 'sub/b': 'foo' });
    symlinkSync('.git', join(root, 'sub/.git'));
    symlinkSync('.ignore', join(root, 'sub/.ignore'));
    expect((await find(root, 'foo')).lines).toEqual(['a:1:1:foo', 'sub/b:1:1:foo']);
    expect((await find(join(root, 'sub'), 'foo')).lines).toEqual(['b:1:1:foo']);
  });

  test('applies ignore files above the root, but not to the root itself', async () => {
    const root = makeTree({
      '.gitignore': 'out/\n*.log\n',
      'out/a': 'foo',
      'out/b.log': 'foo',
      'out/out/c': 'foo',
    });
    expect((await find(`${root}/out`, 'foo')).lines).toEqual(['a:1:1:foo']);
  });

  test('excludes an included file that is ignored, hidden or excluded', async () => {
    const root = makeTree({
      '.gitignore': 'b.ts',
      'a.ts': 'foo',
      'b.ts': 'foo',
      '.c.ts': 'foo',
      'd/e.ts': 'foo',
      'f.js': 'foo',
    });
    const changes = { include: ['*.ts'], exclude: ['/d'] };
    expect((await find(root, 'foo', changes)).lines).toEqual(['a.ts:1:1:foo']);
    expect((await find(root, 'foo', { include: ['d/**', '*.{js,css}'] })).lines).toEqual([
      'd/e.ts:1:1:foo',
      'f.js:1:1:foo',
    ]);
  });

  test('reports truncation only when there are more results than requested', async () => {
    const root = makeTree({ a: 'foo\nfoo\n', b: 'foo\n' });
    expect((await find(root, 'foo', { maxResults: 3 })).truncated).toBeNull();
    const { lines: found, truncated } = await find(root, 'foo', { maxResults: 2 });
    expect([found.length, truncated]).toEqual([2, 'results']);
  });

  test('limits the size of the response', async () => {
    const line = `foo${'\x01'.repeat(900)}\n`;
    const { lines: found, truncated } = await find(makeTree({ a: line.repeat(1_000) }), 'foo', {
      maxResults: 10_000,
    });
    expect(truncated).toBe('size');
    expect(found.length).toBeGreaterThan(700);
    expect(found.length).toBeLessThan((4 * 1024 * 1024) / (900 * 6));
  });

  test.each([
    [{ pattern: '(' }, /^pattern is not a valid regular expression: \w/],
    [{ pattern: 'a\nb' }, 'pattern must not contain a line end'],
    [{ pattern: 'a\\nb' }, 'pattern'],
    [{ pattern: 'a\0b' }, 'pattern must not contain a NUL byte'],
    [{ include: ['[a'] }, 'glob `[a`'],
    [{ maxResults: 0 }, 'maxResults must be between 1 and 10000'],
    [{ maxResults: 10_001 }, 'maxResults must be between 1 and 10000'],
    [{ timeoutMs: 60_001 }, 'timeoutMs must be between 1 and 60000'],
  ])('rejects %j', async (changes, message) => {
    const failure = find(makeTree({ a: 'foo' }), 'foo', changes);
    await expect(failure).rejects.toMatchObject({ kind: 'refused' });
    await expect(failure).rejects.toThrow(message);
  });

  test('reports a missing path as not found', async () => {
    const failure = find(`${makeTree({})}/none`, 'foo');
    await expect(failure).rejects.toMatchObject({
      kind: 'notFound',
      message: 'No such file or directory (os error 2)',
    });
  });

  test('does not start when the signal is already aborted', async () => {
    const search = searchWith(engine).search(
      queryFor(makeTree({ a: 'foo' }), 'foo'),
      AbortSignal.abort('enough'),
    );
    await expect(search).rejects.toBe('enough');
  });

  test('leaves no processes or threads behind', async () => {
    const before = childPids();
    await find(makeTree({ a: 'foo\n'.repeat(1_000) }), 'foo', { maxResults: 1 });
    await waitFor('the end of all processes', () => childPids().every((pid) => before.includes(pid)));
  });
});

test('ends a pattern that backtracks without end at the time limit, with the results so far', async () => {
  const root = makeTree({ a: 'aaa\n', b: `${'a'.repeat(100)}b\n` });
  const { matches, truncated } = await searchUntilTimeout(searchWith('builtin'), root, '^(a+)+$');
  expect([lines(matches, root), truncated]).toEqual([['a:1:1:aaa'], 'time']);
});

test('ends an aborted search in any state', async () => {
  const root = makeTree({ a: `${'a'.repeat(100)}b\n` });
  const abort = new AbortController();
  const search = searchWith('builtin').search(queryFor(root, '^(a+)+$'), abort.signal);
  setImmediate(() => abort.abort('enough'));
  await expect(search).rejects.toBe('enough');
});

test('reports a text file that is too large for the builtin engine', async () => {
  const root = makeTree({ small: 'foo', text: 'foo\n'.repeat(2_048), zeros: '' });
  for (const name of ['text', 'zeros']) truncateSync(join(root, name), SEARCH_MAX_FILE_BYTES + 1);
  const find = async (include: string) => {
    const { matches, truncated, incompleteFiles } = await searchWith('builtin').search(
      queryFor(root, 'foo', { include: [include] }),
      WANTED,
    );
    return [lines(matches, root), truncated, incompleteFiles];
  };
  expect(await find('[!t]*')).toEqual([['small:1:1:foo'], null, []]);
  expect(await find('*')).toEqual([['small:1:1:foo'], 'size', [join(root, 'text')]]);
});

test.each(ENGINES)('%s reports a line that is too long to be searched', async (engine) => {
  const root = makeTree({ 'a.min.js': `foo\n${'x'.repeat(SEARCH_MAX_LINE_BYTES)}foo\nfoo`, b: 'foo' });
  const find = async (pattern: string, include: string) => {
    const query = queryFor(root, pattern, { include: [include] });
    const { matches, truncated, incompleteFiles } = await searchWith(engine).search(query, WANTED);
    return [lines(matches, root), truncated, incompleteFiles];
  };
  const cut = [join(root, 'a.min.js')];
  const found = ['a.min.js:1:1:foo', 'a.min.js:3:1:foo', 'b:1:1:foo'];
  expect(await find('foo', '*')).toEqual([found, 'size', cut]);
  expect(await find('xfoo', '*')).toEqual([[], 'size', cut]);
  expect(await find('foo', 'b')).toEqual([['b:1:1:foo'], null, []]);
});

test.each(ENGINES)('%s names a limited number of files with long lines, each once', async (engine) => {
  const long = `${'x'.repeat(SEARCH_MAX_LINE_BYTES)}foo\n`;
  const names = Array.from({ length: SEARCH_INCOMPLETE_FILES + 1 }, (_, number) =>
    String(number).padStart(2, '0'),
  );
  const root = makeTree(Object.fromEntries(names.map((name) => [name, long.repeat(2)])));
  const { incompleteFiles } = await searchWith(engine).search(queryFor(root, 'foo'), WANTED);
  expect(new Set(incompleteFiles).size).toBe(SEARCH_INCOMPLETE_FILES);
  expect(incompleteFiles).toHaveLength(SEARCH_INCOMPLETE_FILES);
});

describe('files and directories that cannot be read', () => {
  const isRoot = process.geteuid?.() === 0;
  const NOBODY = 65_534;

  /** A readable tree with two directories and a file that only root can read. */
  function treeWithSecrets(): string {
    const root = makeTree({ a: 'foo', b: 'foo', 'c/x': 'foo', 'd/x': 'foo', 'e/x': 'foo' });
    chmodSync(root, 0o755);
    for (const name of ['b', 'c', 'd']) chmodSync(join(root, name), 0);
    return root;
  }

  /** So that any user can remove the tree. */
  function reveal(root: string): void {
    for (const name of ['c', 'd']) chmodSync(join(root, name), 0o755);
  }

  test('are counted by the builtin engine', () => {
    const root = treeWithSecrets();
    const query = queryFor(root, 'foo');
    const found: SearchMatch[] = [];
    let unreadable = 0;
    if (isRoot) process.seteuid!(NOBODY);
    try {
      searchTree(query, true, javaScriptPattern(query), {
        found: (matches) => found.push(...matches),
        tooLarge: () => expect.unreachable('no file is that large'),
        unreadable: () => unreadable++,
      });
    } finally {
      if (isRoot) process.seteuid!(0);
      reveal(root);
    }
    expect([lines(found, root), unreadable]).toEqual([['a:1:1:foo', 'e/x:1:1:foo'], 3]);
  });

  test.runIf(hasRipgrep)('are counted by ripgrep', async () => {
    const root = treeWithSecrets();
    const ripgrep = execFileSync('/bin/sh', ['-c', 'command -v rg'], { encoding: 'utf8' }).trim();
    const user = isRoot ? `/usr/bin/setpriv --reuid ${NOBODY} --clear-groups ` : '';
    const { search } = fakeRipgrep(`#!/bin/sh\nexec ${user}${ripgrep} "$@"\n`);
    const result = await search.search(queryFor(root, 'foo'), WANTED).finally(() => reveal(root));
    expect([lines(result.matches, root), result.truncated, result.unreadable, result.engine]).toEqual([
      ['a:1:1:foo', 'e/x:1:1:foo'],
      null,
      3,
      'ripgrep',
    ]);
  });

  test.each(ENGINES)('are none for %s when links are broken and files are binary', async (engine) => {
    const root = makeTree({ a: 'foo', b: 'foo\0' });
    symlinkSync('nowhere', join(root, 'c'));
    const { unreadable } = await searchWith(engine).search(queryFor(root, 'foo'), WANTED);
    expect(unreadable).toBe(0);
  });
});

test('searches a path that is not UTF-8 without ripgrep', async () => {
  const root = makeTree({ 'n\xff/a': 'foo' });
  const search = new ContentSearch(process.env.PATH ?? '');
  const query = { path: nativePathOfBytes(`${root}/n\xff`), pattern: 'foo' };
  const { matches, engine } = await search.search(query, WANTED);
  expect([matches.length, engine]).toEqual([1, 'builtin']);
});

describe('ripgrep', () => {
  const PRINT_MATCH = [
    `echo '{"type":"begin","data":{"path":{"text":"./a"}}}'`,
    `echo '{"type":"match","data":{"path":{"text":"./a"},"lines":{"text":"foo"},"line_number":1,"submatches":[{"start":0,"end":1}]}}'`,
    `echo '{"type":"end","data":{"binary_offset":null}}'`,
  ].join('\n');

  test.each([
    ['does not know an option', `#!/bin/sh\necho 'error: Found argument' >&2; exit 2\n`],
    ['breaks down', `#!/bin/sh\n${PRINT_MATCH}\nkill -9 $$\n`],
    ['cannot be executed', '#!/nowhere/sh\n'],
    ['is no program', '\0'],
  ])('is not used if it %s', async (_, script) => {
    const { search } = fakeRipgrep(script);
    const root = makeTree({ a: 'foo\n' });
    const { matches, engine, truncated } = await search.search(queryFor(root, 'foo'), WANTED);
    expect([lines(matches, root), engine, truncated]).toEqual([['a:1:1:foo'], 'builtin', null]);
  });

  test('is killed when it hangs until the time limit, and its results so far are returned', async () => {
    const { search, folder } = fakeRipgrep(
      `#!/bin/sh\n${PRINT_MATCH}\necho $$ > FOLDER/pid\nexec /bin/sleep 1000\n`,
    );
    const root = makeTree({ a: 'foo\n' });
    const result = await searchUntilTimeout(search, root, 'foo');
    expect([lines(result.matches, root), result.engine, result.truncated]).toEqual([
      ['a:1:1:foo'],
      'ripgrep',
      'time',
    ]);
    const pid = Number(readFileSync(join(folder, 'pid'), 'utf8'));
    await waitFor('the end of the process', () => !isAlive(pid));
  });

  test('is killed when the search is aborted', async () => {
    const { search, folder } = fakeRipgrep(
      '#!/bin/sh\necho $$ > FOLDER/new; mv FOLDER/new FOLDER/pid\nexec /bin/sleep 1000\n',
    );
    const abort = new AbortController();
    const running = search.search(queryFor(makeTree({}), 'foo'), abort.signal);
    await waitFor('the start of the process', () => existsSync(join(folder, 'pid')));
    abort.abort('enough');
    await expect(running).rejects.toBe('enough');
    const pid = Number(readFileSync(join(folder, 'pid'), 'utf8'));
    await waitFor('the end of the process', () => !isAlive(pid));
  });

  test('keeps its slot while it hangs, and other searches wait up to their own time limit', async () => {
    const { search, folder } = fakeRipgrep('#!/bin/sh\n/bin/mkdir FOLDER/$$\nexec /bin/sleep 1000\n');
    mkdirSync(join(folder, 'root'));
    const abort = new AbortController();
    const query = queryFor(join(folder, 'root'), 'foo');
    const greedy = {};
    const share = Array.from({ length: SEARCH_CONCURRENCY }, () =>
      search.search(query, abort.signal, greedy),
    );
    const started = () => childPids().filter((pid) => existsSync(join(folder, String(pid))));
    await waitFor('half of them to start', () => started().length === SEARCH_CONCURRENCY / 2);
    // The rest is left to other sessions.
    const others = Array.from({ length: SEARCH_CONCURRENCY / 2 }, () =>
      search.search(query, abort.signal, {}),
    );
    const running = [...share, ...others];
    await waitFor('all to start', () => started().length === SEARCH_CONCURRENCY);
    const result = await search.search({ ...query, timeoutMs: 50 }, WANTED);
    expect(result).toMatchObject({ matches: [], truncated: 'time', unreadable: 0, engine: 'ripgrep' });
    expect(started()).toHaveLength(SEARCH_CONCURRENCY);
    const abortNext = new AbortController();
    const next = search.search(query, abortNext.signal);
    abort.abort('enough');
    for (const search of running) await expect(search).rejects.toBe('enough');
    await waitFor('the next to start', () => started().length === 1);
    abortNext.abort('enough as well');
    await expect(next).rejects.toBe('enough as well');
  });
});
