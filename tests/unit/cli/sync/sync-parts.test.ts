import { PassThrough } from 'node:stream';
import { describe, expect, test } from 'vitest';
import { ChangeQueue } from '../../../../src/cli/sync/change-queue.ts';
import { IgnoreRules } from '../../../../src/cli/sync/ignore-rules.ts';
import { Report, summaryOf } from '../../../../src/cli/sync/report.ts';
import { isName, shownPath } from '../../../../src/cli/sync/tree.ts';
import { watchExclusions } from '../../../../src/cli/sync/watch-exclusions.ts';

/** Paths that end with a slash are directories. */
function ignored(rules: IgnoreRules, paths: readonly string[]): string[] {
  return paths.filter((path) => rules.ignores(path.replace(/\/$/, ''), path.endsWith('/')));
}

describe('ignore rules', () => {
  test('of deeper files override those above, and .execignore overrides .gitignore', () => {
    const rules = new IgnoreRules([]);
    rules.addFile('.gitignore', '*.log\nbuild/\n');
    rules.addFile('sub/.gitignore', '!keep.log\n');
    rules.addFile('.execignore', '!deep.log\n*.tmp\n');
    const paths = [
      'a.log',
      'sub/keep.log',
      'sub/b.log',
      'deep.log',
      'x.tmp',
      'build/',
      'build',
      'src/build/',
    ];
    expect(ignored(rules, paths)).toEqual(['a.log', 'sub/b.log', 'x.tmp', 'build/', 'src/build/']);
  });

  test('of --exclude override all files', () => {
    const rules = new IgnoreRules(['*.md', '!README.md', 'größe']);
    rules.addFile('.execignore', '!CHANGES.md\nREADME.md\n');
    const bytes = Buffer.from('größe').toString('latin1');
    expect(ignored(rules, ['CHANGES.md', 'README.md', 'a.txt', bytes])).toEqual(['CHANGES.md', bytes]);
  });

  test('never apply inside .git, and only --exclude and .execignore name .git itself', () => {
    const rules = new IgnoreRules([]);
    rules.addFile('.gitignore', '.*\nlogs\nbuild\n');
    expect(ignored(rules, ['.git/', '.git/logs/', '.git/refs/heads/build', 'logs', '.env'])).toEqual([
      'logs',
      '.env',
    ]);
    rules.addFile('.execignore', '.git\n');
    expect(ignored(rules, ['.git/', 'sub/.git'])).toEqual(['.git/', 'sub/.git']);
    expect(ignored(new IgnoreRules(['.git']), ['.git/'])).toEqual(['.git/']);
  });

  test('of a repository end at a repository inside it', () => {
    const rules = new IgnoreRules([]);
    rules.addFile('.gitignore', '*.o\n');
    rules.addRepository('module');
    rules.addFile('module/.gitignore', '*.a\n');
    expect(ignored(rules, ['x.o', 'module/x.o', 'module/x.a'])).toEqual(['x.o', 'module/x.a']);
  });

  test('do not apply to the content of a directory that other rules include again', () => {
    const rules = new IgnoreRules([]);
    rules.addFile('.gitignore', 'vendor\n*.log\n');
    rules.addFile('.execignore', '!vendor\n');
    expect(ignored(rules, ['vendor/'])).toEqual([]);
    rules.enter('vendor');
    expect(ignored(rules, ['vendor/a.js', 'vendor/a.log'])).toEqual(['vendor/a.log']);
  });

  test('depend on ignore files and .git only', () => {
    const rules = new IgnoreRules([]);
    const paths = ['.gitignore', 'a/.execignore', 'a/.git', '.git/.gitignore', 'gitignore'];
    expect(paths.filter((path) => rules.dependsOn(path))).toEqual(['.gitignore', 'a/.execignore', 'a/.git']);
  });
});

test('joins changes that come together, and reports an overflow beyond its limit', async () => {
  const queue = new ChangeQueue(2);
  const ending = new AbortController();
  const batches = queue.until(ending.signal);
  queue.add('a', false);
  queue.add('a', true);
  queue.add('b', false);
  expect((await batches.next()).value).toEqual({
    changes: new Map([
      ['a', { isNew: true }],
      ['b', { isNew: false }],
    ]),
    overflow: false,
  });
  for (const path of ['a', 'b', 'c', 'd']) queue.add(path, true);
  expect((await batches.next()).value).toEqual({ changes: new Map(), overflow: true });
  const waiting = batches.next();
  ending.abort();
  expect(await waiting).toEqual({ done: true, value: undefined });
});

test('ends with the error of the watch', async () => {
  const queue = new ChangeQueue();
  const waiting = queue.until(new AbortController().signal).next();
  queue.fail(new Error('gone'));
  await expect(waiting).rejects.toThrow('gone');
});

test('excludes ignored directories from a watch by their exact names, within the limits of servers', () => {
  expect(watchExclusions(['a/node_modules', 'odd[*]', 'not-utf-8\xff'])).toEqual([
    '/a/node_modules',
    '/odd\\[\\*\\]',
  ]);
  expect(watchExclusions(Array.from({ length: 500 }, (_, index) => `d${index}`))).toHaveLength(200);
});

test('refuses names that lead elsewhere', () => {
  const bad = ['', '.', '..', 'a/b', '/', 'a\0', 'ā'];
  expect(bad.filter(isName)).toEqual([]);
  expect(['a', '...', '..a', '\xff', 'a b'].every(isName)).toBe(true);
});

test('escapes control characters of paths', () => {
  expect(shownPath('plain name')).toBe('plain name');
  expect(shownPath('a\u001b[2J\nb')).toBe('a\\x1b[2J\\nb');
  expect(shownPath(Buffer.from('é\u202e').toString('latin1'))).toBe('é\\u202e');
});

test('sums a pass up in one line', () => {
  const nothing = {
    copied: 0,
    bytes: 0,
    directories: 0,
    links: 0,
    updated: 0,
    deleted: 0,
    unchanged: 0,
    kept: 0,
  };
  expect(summaryOf({ ...nothing, skipped: 0, failed: 0 })).toBe('0 files copied');
  const much = {
    copied: 2,
    bytes: 1536,
    directories: 1,
    links: 2,
    updated: 1,
    deleted: 3,
    unchanged: 4,
    kept: 5,
  };
  expect(summaryOf({ ...much, skipped: 1, failed: 1 })).toBe(
    '2 files copied (1.5 KiB), 1 directory created, 2 links created, 1 got another mode or time, 3 deleted, 4 unchanged, 5 only in the destination, 1 skipped, 1 failed',
  );
});

test('a pass because of changes names the first paths before the counts, and how many more there are', () => {
  const stdout = new PassThrough({ encoding: 'utf8' });
  const report = new Report({ stdout, stderr: stdout }, { json: false, dryRun: false, watch: true });
  const copied = (...paths: string[]) => {
    report.begin();
    for (const path of paths) report.step({ type: 'copy', path, bytes: 1 });
    report.count('unchanged', 2);
    report.end('changes');
    return String(stdout.read()).slice('00:00:00 '.length);
  };
  expect(copied('a')).toBe('a: 1 file copied (1 B), 2 unchanged\n');
  expect(copied('a', 'b', 'c', 'd', 'e')).toBe('a, b, c and 2 more: 5 files copied (5 B), 2 unchanged\n');
});
