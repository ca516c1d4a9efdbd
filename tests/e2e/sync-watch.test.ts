import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest';
import { newSyncFolders, writeFiles } from '../support/file-trees.ts';
import { CommandUser } from '../support/private-server.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';
import { waitFor } from '../support/wait-for.ts';
import { type CliRun, firstLine } from '../unit/cli/run-cli.ts';

const user = new CommandUser();
afterAll(() => user.close());

let source: string;
let destination: string;
let running: Watching | null = null;
beforeEach(() => {
  ({ source, destination } = newSyncFolders(user));
});
afterEach(() => {
  running?.run.child.kill('SIGKILL');
  running = null;
});

const copied = (path: string) => readFileSync(join(destination, path), 'utf8');

/** A running `sync --watch --json`. */
class Watching {
  readonly run: CliRun;
  #records: Record<string, unknown>[] = [];
  #rest = '';

  constructor(args: readonly string[]) {
    this.run = user.start(['sync', '--watch', '--json', ...args]);
    this.run.child.stdout.on('data', (text: string) => {
      const lines = (this.#rest + text).split('\n');
      this.#rest = lines.pop()!;
      this.#records.push(...lines.map((line) => JSON.parse(line)));
    });
    running = this;
  }

  /** Waits for a record after those that were returned before. */
  async next(wanted: Readonly<Record<string, unknown>>): Promise<Record<string, unknown>> {
    const matches = (record: Record<string, unknown>) =>
      Object.entries(wanted).every(([name, value]) =>
        value instanceof RegExp ? value.test(String(record[name])) : record[name] === value,
      );
    const found = await waitFor(`the record ${JSON.stringify(wanted)}`, () => this.#records.find(matches));
    this.#records.splice(0, this.#records.indexOf(found!) + 1);
    return found!;
  }

  /** Waits until a step was taken and its pass has ended. */
  async step(type: string, path: string): Promise<void> {
    await this.next({ type, path });
    await this.next({ type: 'pass' });
  }

  /** The failures among the records that were not returned. */
  get failures(): readonly Record<string, unknown>[] {
    return this.#records.filter(({ type }) => type === 'failed');
  }

  async end(): Promise<void> {
    this.run.child.kill('SIGINT');
    expect(await this.run.outcome).toMatchObject({ code: 0, stderr: '' });
  }
}

describe.each<[string, () => string[]]>([
  ['to an environment', () => [source, `local:${destination}`]],
  ['from an environment', () => [`local:${source}`, destination]],
])('sync --watch %s', (_name, operands) => {
  test('copies every change, until Ctrl-C', async () => {
    writeFiles(source, { '.gitignore': 'ignored/\n', 'a.txt': 'one', 'ignored/x': '' });
    writeFiles(destination, { extra: '' });
    const watch = new Watching(['--delete', ...operands()]);
    expect(await watch.next({ type: 'pass' })).toMatchObject({ reason: 'start', copied: 2, deleted: 1 });

    writeFiles(source, { 'a.txt': 'two', 'ignored/y': '' });
    await watch.step('copy', 'a.txt');
    expect(copied('a.txt')).toBe('two');

    chmodSync(join(source, 'a.txt'), 0o751);
    await watch.step('attributes', 'a.txt');
    expect(statSync(join(destination, 'a.txt')).mode & 0o777).toBe(0o751);

    writeFiles(source, { 'new/deep/b.txt': 'b' });
    await watch.step('copy', 'new/deep/b.txt');
    symlinkSync('deep/b.txt', join(source, 'new/link'));
    await watch.step('link', 'new/link');

    renameSync(join(source, 'new'), join(source, 'moved'));
    await watch.step('link', 'moved/link');
    await waitFor('the deletion of the old name', () => !existsSync(join(destination, 'new')));
    expect(copied('moved/link')).toBe('b');

    // A directory gives its name to a file, and a rule changes.
    rmSync(join(source, 'moved'), { recursive: true });
    writeFiles(source, { moved: 'file' });
    await watch.step('copy', 'moved');
    writeFiles(source, { '.gitignore': '' });
    await watch.step('copy', 'ignored/y');
    await watch.end();
    expect(copied('moved')).toBe('file');
  });
});

describe.each<[string, () => string[]]>([
  ['to an environment', () => [source, `local:${destination}`]],
  ['from an environment', () => [`local:${source}`, destination]],
])('sync --watch --delete %s', (_name, operands) => {
  test.each<[string, () => void, string[]]>([
    ['a new file', () => writeFiles(source, { new: 'n' }), ['a', 'new']],
    ['a new directory', () => mkdirSync(join(source, 'directory')), ['a', 'directory']],
    ['a renamed file', () => renameSync(join(source, 'a'), join(source, 'b')), ['b']],
  ])('copies %s', async (_change, change, names) => {
    writeFiles(source, { a: 'a' });
    const watch = new Watching(['--delete', ...operands()]);
    await watch.next({ type: 'pass' });
    change();
    await waitFor('the change', () => readdirSync(destination).sort().join() === names.join());
    await watch.end();
    expect(watch.failures).toEqual([]);
  });

  test('copies everything again when the destination was removed', async () => {
    writeFiles(source, { 'a.txt': 'a', 'sub/b.txt': 'b' });
    const watch = new Watching(operands());
    await watch.next({ type: 'pass' });
    rmSync(destination, { recursive: true });
    writeFiles(source, { 'c.txt': 'c' });
    await watch.step('copy', 'c.txt');
    await watch.end();
    expect([copied('a.txt'), copied('sub/b.txt'), copied('c.txt')]).toEqual(['a', 'b', 'c']);
    expect(watch.failures).toEqual([]);
  });

  test('goes on when the source disappears, and deletes nothing then', async () => {
    writeFiles(source, { a: 'a' });
    const watch = new Watching(['--delete', ...operands()]);
    await watch.next({ type: 'pass' });
    rmSync(join(source, 'a'));
    await watch.next({ type: 'notice', message: /is empty, and --delete would delete everything/ });
    expect(copied('a')).toBe('a');
    renameSync(source, `${source}-away`);
    const { message } = await watch.next({ type: 'notice' });
    expect(message).toMatch(
      /source is gone, .*; nothing is deleted; create it to continue, or end the command/,
    );
    renameSync(`${source}-away`, source);
    writeFiles(source, { b: 'b' });
    await watch.next({ type: 'copy', path: 'b' });
    await watch.end();
    expect(copied('b')).toBe('b');
  });
});

describe('a lost connection', () => {
  const servers = Promise.all([firstLine(user.start(['serve'])), firstLine(user.start(['serve']))]);
  const portOf = (url: string) => Number(new URL(url).port);

  test.each<[string, (address: string) => string[]]>([
    ['to', (address) => [source, `${address}:${destination}`]],
    ['from', (address) => [`${address}:${source}`, destination]],
  ])('%s a server is restored, and everything is compared', async (_name, operands) => {
    const [first, second] = await servers;
    const proxy = await TcpProxy.open(portOf(first));
    try {
      writeFiles(source, { a: 'a' });
      const watch = new Watching(operands(`ws://127.0.0.1:${proxy.port}`));
      await watch.next({ type: 'pass', reason: 'start' });

      // The session can be resumed.
      const { target } = proxy;
      proxy.target = null;
      proxy.cut();
      await watch.next({ type: 'notice', message: 'the connection is lost; reconnecting' });
      writeFiles(source, { b: 'b' });
      proxy.target = target;
      await watch.next({ type: 'pass', reason: 'resync' });
      expect(copied('b')).toBe('b');

      // Another server does not know the session.
      proxy.target = portOf(second);
      proxy.cut();
      writeFiles(source, { c: 'c' });
      await watch.next({ type: 'notice', message: /trying again/ });
      await watch.next({ type: 'pass', reason: 'resync' });
      expect(copied('c')).toBe('c');
      writeFiles(source, { d: 'd' });
      await watch.step('copy', 'd');
      expect(copied('d')).toBe('d');
      await watch.end();
    } finally {
      await proxy.close();
    }
  });
});

test('prints one line for each batch', async () => {
  writeFiles(source, { a: 'a' });
  const run = user.start(['sync', '--watch', source, `local:${destination}`]);
  let printed = '';
  run.child.stdout.on('data', (text) => {
    printed += text;
  });
  await waitFor('the first line', () => printed.includes('\n'));
  writeFiles(source, { b: 'bb' });
  await waitFor('the second line', () => printed.split('\n').length > 2);
  run.child.kill('SIGTERM');
  expect(await run.outcome).toMatchObject({ code: 0, stderr: '' });
  expect(printed).toMatch(
    /^\d\d:\d\d:\d\d 1 file copied \(1 B\)\n\d\d:\d\d:\d\d b: 1 file copied \(2 B\)\n$/,
  );
});

describe.each([
  ['to an environment', (path: string) => [path, `local:${destination}`]],
  ['from an environment', (path: string) => [`local:${path}`, destination]],
])('a git checkout %s', (_direction, operands) => {
  // Without optional locks, `git status` only reads. Else it may replace the index that sync has just copied with its own, older one.
  const git = (folder: string, ...args: string[]) =>
    execFileSync('git', ['--no-optional-locks', '-C', folder, ...args], {
      encoding: 'utf8',
      env: { ...process.env, ...GIT_USER, GIT_CONFIG_GLOBAL: '/dev/null', GIT_CONFIG_NOSYSTEM: '1' },
    });
  const files = (text: string, count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, index) => [`src/${index % 7}/file${index}`, text]));

  test('stays a checkout while git changes branches and commits', async () => {
    git(source, 'init', '-q', '-b', 'main');
    writeFiles(source, { ...files('one\n', 60), '.gitignore': 'build/\n' });
    git(source, 'add', '.');
    git(source, 'commit', '-qm', 'one');
    const watch = new Watching(['--delete', ...operands(source)]);
    await watch.next({ type: 'pass', reason: 'start' });
    git(source, 'checkout', '-qb', 'other');
    writeFiles(source, { ...files('two\n', 30), 'more/new': 'x', 'build/output': 'ignored' });
    git(source, 'rm', '-q', 'src/3/file59');
    git(source, 'add', '.');
    git(source, 'commit', '-qm', 'two');
    git(source, 'checkout', '-q', 'main');
    writeFiles(source, { 'src/0/file0': 'three\n' });
    git(source, 'commit', '-qam', 'three');
    git(source, 'merge', '-q', '-X', 'ours', '--no-edit', 'other');
    git(source, 'gc', '-q');
    // The last step, gc, changes only how the objects are stored.
    const objects = (folder: string) =>
      git(folder, 'count-objects', '-v')
        .split('\n')
        .filter((line) => /^(?:count|in-pack|packs|garbage):/.test(line));
    const state = (folder: string) =>
      [
        git(folder, 'log', '--all', '--format=%H %D'),
        git(folder, 'status', '--porcelain'),
        ...objects(folder),
      ].join();
    const wanted = state(source);
    await waitFor('the same state', () => {
      try {
        return state(destination) === wanted;
      } catch {
        // In the middle of a copy it may be no checkout.
        return false;
      }
    });
    watch.run.child.kill('SIGINT');
    expect(await watch.run.outcome).toMatchObject({ code: 0 });
    expect(git(destination, 'status', '--porcelain')).toBe('');
    expect(git(destination, 'fsck', '--full', '--strict', '--no-dangling')).toBe('');
    expect(git(destination, 'diff', '--stat', 'main', '--')).toBe('');
    expect(existsSync(join(destination, 'build'))).toBe(false);
    expect(copied('src/0/file0')).toBe(readFileSync(join(source, 'src/0/file0'), 'utf8'));
  });
});

const GIT_USER = {
  ...{ GIT_AUTHOR_NAME: 'Ana', GIT_AUTHOR_EMAIL: 'ana@example.org' },
  ...{ GIT_COMMITTER_NAME: 'Ana', GIT_COMMITTER_EMAIL: 'ana@example.org' },
};
