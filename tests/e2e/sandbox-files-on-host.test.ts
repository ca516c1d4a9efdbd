import { chmodSync, mkdirSync, rmSync, symlinkSync } from 'node:fs';
import { basename, join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { SandboxRequest } from '../../src/protocol/sandbox.ts';
import {
  at,
  denyGlob,
  EscapeFixture,
  type EscapeServer,
  managed,
  SERVER_USERS,
  uri,
} from '../support/escape-fixture.ts';
import {
  changes,
  entryAt,
  type HostTree,
  hostTree,
  resolvedEntry,
  resolvedPath,
  subtree,
} from '../support/host-tree.ts';

/** Policies that are tried per user, and operations under each. A policy starts a helper, which takes a quarter of a second. */
const POLICIES = 10;
const OPERATIONS = 20;

/** Names in the directory of a run. */
const NAMES = [
  '.',
  'a',
  'a/file',
  'a/sub',
  'a/sub/file',
  'a/sub/deep',
  'a/sub/deep/file',
  'a/.git',
  'a/.git/config',
  'a/.codex',
  'b',
  'b/file',
  'b/sub',
  'to-sub',
  'line\nbreak',
] as const;
/** Links that lead inside, outside and to nothing. A copy of one leads to nothing, or to where the original leads. */
const LINKS: Readonly<Record<string, string>> = {
  'to-sub': 'a/sub',
  'a/to-b': 'F/b',
  'b/to-nothing': '../a/sub/later',
  'b/to-hidden': '../hidden/later',
  'b/up': 'F',
  'a/to-memory': '/dev/shm/U',
  'a/to-devices': '/dev/U',
};

const name = fc.constantFrom(...NAMES);
const access: fc.Arbitrary<'read' | 'write' | 'deny'> = fc.oneof(
  { weight: 4, arbitrary: fc.constant('write' as const) },
  { weight: 1, arbitrary: fc.constant('read' as const) },
  { weight: 1, arbitrary: fc.constant('deny' as const) },
);

/** An entry of a policy. `F` stands for the fixture's directory, `M` for its directory in /dev/shm. */
type Rule =
  | {
      readonly kind: 'special';
      readonly value: 'root' | 'slash_tmp' | 'project_roots' | 'minimal' | 'tmpdir';
    }
  | { readonly kind: 'path'; readonly path: string }
  | { readonly kind: 'glob'; readonly pattern: string };

const rule: fc.Arbitrary<Rule & { readonly access: 'read' | 'write' | 'deny' }> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('special' as const),
      value: fc.constantFrom(
        'root',
        'root',
        'slash_tmp',
        'project_roots',
        'minimal',
        'tmpdir',
      ) as fc.Arbitrary<'root' | 'slash_tmp' | 'project_roots' | 'minimal' | 'tmpdir'>,
      access,
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant('path' as const),
      path: fc.oneof(
        { weight: 6, arbitrary: name.map((inside) => join('F', inside)) },
        { weight: 1, arbitrary: fc.constantFrom('/dev', '/dev/shm', 'M', 'M/sub', '/tmp', '/proc', '/sys') },
      ),
      access,
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('glob' as const),
      pattern: fc.constantFrom('F/**/file', 'F/a/*', '**/config'),
      access: fc.constant('deny' as const),
    }),
  },
);

/** A path of an operation. Paths outside of the fixture have names that no other file has. */
const path = fc.oneof(
  { weight: 8, arbitrary: name.map((inside) => join('F', inside)) },
  { weight: 5, arbitrary: name.map((inside) => join('F', inside, 'new')) },
  { weight: 2, arbitrary: name.map((inside) => join('F', inside, 'new/deeper')) },
  { weight: 2, arbitrary: fc.constantFrom(...Object.keys(LINKS)).map((link) => `F/${link}`) },
  {
    weight: 2,
    arbitrary: fc.constantFrom('F/a/to-b/new', 'F/b/up/a/new', 'F/a/to-memory/new', 'F/a/to-devices/new'),
  },
  {
    weight: 2,
    arbitrary: fc.constantFrom('/dev/U', '/dev/U/deeper', '/dev/shm/U', '/dev/pts/U', '/dev/shm/U/deeper'),
  },
  { weight: 2, arbitrary: fc.constantFrom('M', 'M/file', 'M/sub/new', 'M/new') },
  {
    weight: 2,
    arbitrary: fc.constantFrom('/proc/self/rootF/a/new', '/proc/self/rootF/b/file', '/proc/self/U'),
  },
  { weight: 1, arbitrary: fc.constantFrom('/dev/null', '/proc/self/fd/U') },
);

const operation = fc.oneof(
  fc.record({ kind: fc.constant('write' as const), path, followSymlinks: fc.boolean() }),
  fc.record({
    kind: fc.constant('stream' as const),
    path,
    mode: fc.constantFrom('replace', 'atomicReplace'),
  }),
  fc.record({
    kind: fc.constant('mkdir' as const),
    path,
    recursive: fc.boolean(),
    followSymlinks: fc.boolean(),
  }),
  fc.record({ kind: fc.constant('remove' as const), path, recursive: fc.boolean(), force: fc.boolean() }),
  fc.record({ kind: fc.constant('copy' as const), source: path, path, recursive: fc.boolean() }),
  fc.record({ kind: fc.constant('rename' as const), source: path, path }),
);
type Operation = typeof operation extends fc.Arbitrary<infer T> ? T : never;

/** The trees and names that an operation may reach. */
class Host {
  readonly fixture: EscapeFixture;
  readonly memory: string;
  readonly #unique: string;
  #directory = '';
  #runs = 0;

  constructor(fixture: EscapeFixture) {
    this.fixture = fixture;
    this.#unique = `on-host-${basename(fixture.path)}`;
    this.memory = `/dev/shm/${this.#unique}-memory`;
  }

  /** Makes the same files again, in a new directory. */
  reset(): void {
    this.clear();
    const run = `run${++this.#runs}`;
    this.#directory = this.fixture.directory(run);
    for (const file of [
      'a/file',
      'a/sub/file',
      'a/sub/deep/file',
      'a/.git/config',
      'b/file',
      'line\nbreak/file',
    ])
      this.fixture.file(`${run}/${file}`);
    this.fixture.directory(`${run}/b/sub`);
    for (const [link, target] of Object.entries(LINKS))
      symlinkSync(this.real(target), join(this.#directory, link));
    for (const directory of [this.memory, join(this.memory, 'sub')]) {
      mkdirSync(directory);
      chmodSync(directory, 0o777);
    }
  }

  clear(): void {
    const runs = this.#directory === '' ? [] : [this.#directory];
    for (const tree of [...runs, ...this.#outside()]) rmSync(tree, { recursive: true, force: true });
  }

  /** Replaces the letters. The names that come in may contain the same letters, so those at the start come last. */
  real(path: string): string {
    return path
      .replace(/(?<=\/)U(?=\/|$)/, this.#unique)
      .replace(/^F|(?<=^\/proc\/self\/root)F/, this.#directory)
      .replace(/^M/, this.memory);
  }

  /** Everything that operations may change. */
  snapshot(): HostTree {
    return hostTree([this.fixture.path, ...this.#outside()]);
  }

  sandbox(rules: readonly (Rule & { access: 'read' | 'write' | 'deny' })[]): SandboxRequest {
    const cwd = uri(join(this.#directory, 'a'));
    const entries = rules.map((one) => {
      if (one.kind === 'path') return at(this.real(one.path), one.access);
      if (one.kind === 'glob') return denyGlob(this.real(one.pattern));
      return { path: { type: 'special', value: { kind: one.value } }, access: one.access } as const;
    });
    return managed(entries, { cwd, workspaceRoots: [cwd] });
  }

  #outside(): string[] {
    const made = ['/dev', '/dev/shm', '/dev/pts', '/tmp'].map((directory) => join(directory, this.#unique));
    return [this.memory, ...made];
  }
}

/** Performs the operation. Returns its error, or null after a success. */
async function perform(
  server: EscapeServer,
  host: Host,
  sandbox: SandboxRequest,
  one: Operation,
  content: string,
) {
  const call = async (method: string, params: object): Promise<string | null> => {
    const result = await server.outcome(method, params);
    return typeof result === 'string' ? result : null;
  };
  const target = uri(host.real(one.path));
  const dataBase64 = Buffer.from(content).toString('base64');
  switch (one.kind) {
    case 'write':
      return call('fs/writeFile', { path: target, dataBase64, followSymlinks: one.followSymlinks, sandbox });
    case 'mkdir':
      return call('fs/createDirectory', {
        path: target,
        recursive: one.recursive,
        followSymlinks: one.followSymlinks,
        sandbox,
      });
    case 'remove':
      return call('fs/remove', { path: target, recursive: one.recursive, force: one.force, sandbox });
    case 'copy':
      return call('fs/copy', {
        sourcePath: uri(host.real(one.source)),
        destinationPath: target,
        recursive: one.recursive,
        sandbox,
      });
    case 'rename':
      return call('fs/rename', { sourcePath: uri(host.real(one.source)), destinationPath: target, sandbox });
    case 'stream': {
      const opened = await call('fs/open', { handleId: 'h', path: target, mode: one.mode, sandbox });
      if (opened !== null) return opened;
      const wrote = await call('fs/writeBlock', { handleId: 'h', offset: 0, chunk: dataBase64 });
      return (await call('fs/close', { handleId: 'h' })) ?? wrote;
    }
  }
}

describe.each(SERVER_USERS)('file operations under random policies of a server run by %s', (user) => {
  let fixture: EscapeFixture;
  let server: EscapeServer;
  let host: Host;

  beforeAll(async () => {
    fixture = new EscapeFixture(user);
    host = new Host(fixture);
    server = await fixture.serve([], { TMPDIR: host.memory });
  });
  afterAll(async () => {
    host.clear();
    await fixture.end();
  });

  test('a success means that the host has the effect, a refusal that it has none', async () => {
    let [successes, refusals] = [0, 0];
    const property = fc.asyncProperty(
      fc.array(rule, { minLength: 1, maxLength: 6 }),
      fc.array(operation, { minLength: OPERATIONS, maxLength: OPERATIONS }),
      async (rules, operations) => {
        host.reset();
        const sandbox = host.sandbox(rules);
        for (const [index, one] of operations.entries()) {
          const before = host.snapshot();
          const paths = hostPathsOf(host, one);
          const content = `written by operation ${index}`;
          const error = await perform(server, host, sandbox, one, content);
          const after = host.snapshot();
          const about = JSON.stringify({ rules, one, error });
          if (error === null) {
            successes++;
            expectEffect(one, paths, { before, after, content, about });
          } else {
            refusals++;
            expect(partial(one, paths, changes(before, after)), about).toEqual([]);
          }
        }
      },
    );
    await fc.assert(property, {
      seed: SEED,
      numRuns: POLICIES,
      endOnFailure: true,
    });
    // Otherwise the test proves nothing.
    expect(successes).toBeGreaterThan(20);
    expect(refusals).toBeGreaterThan(20);
  });
});

const SEED = 3;

/** The paths of an operation on the host, before it is performed. */
interface HostPaths {
  readonly path: string;
  /** Where the entry at the path is; a link at the end is not followed. */
  readonly entry: string;
  /** Where a link at the end leads to. */
  readonly target: string;
  readonly source: string;
}

function hostPathsOf(host: Host, one: Operation): HostPaths {
  const path = host.real(one.path);
  const source = 'source' in one ? host.real(one.source) : path;
  return { path, entry: resolvedEntry(path), target: resolvedPath(path), source: resolvedEntry(source) };
}

interface Effect {
  readonly before: HostTree;
  readonly after: HostTree;
  readonly content: string;
  readonly about: string;
}

function expectEffect(one: Operation, paths: HostPaths, { before, after, content, about }: Effect): void {
  const changed = changes(before, after);
  expect(unexpected(one, paths, changed), about).toEqual([]);
  switch (one.kind) {
    case 'write':
    case 'stream':
      if (paths.target === '/dev/null') return;
      expect(entryAt(paths.target)?.replace(/^file \d+ /, ''), about).toBe(content);
      return;
    case 'mkdir':
      expect(entryAt(paths.target) ?? 'nothing', about).toMatch(/^directory/);
      return;
    case 'remove':
      expect(entryAt(paths.entry), about).toBeNull();
      return;
    case 'rename':
      if (paths.source === paths.entry) return;
      expect(entryAt(paths.source), about).toBeNull();
      expect(subtree(after, paths.entry), about).toEqual(subtree(before, paths.source));
      return;
    case 'copy':
      expectCopied(paths, before, after, about);
  }
}

/** A directory is merged into the destination, without its permissions. */
function expectCopied(paths: HostPaths, before: HostTree, after: HostTree, about: string): void {
  if (paths.target === '/dev/null') return;
  const source = subtree(before, paths.source);
  const isLink = source['']?.startsWith('link') === true;
  const copied = subtree(after, isLink ? paths.entry : paths.target);
  const withoutModes = (entries: Record<string, string>) =>
    Object.fromEntries(
      Object.entries(entries).map(([key, text]) => [key, text.replace(/^directory \d+/, 'directory')]),
    );
  expect(withoutModes(copied), about).toMatchObject(withoutModes(source));
  expect(Object.keys(source), about).not.toEqual([]);
}

type Changes = ReturnType<typeof changes>;

/** The changes that the operation has not been asked for. */
function unexpected(
  one: Operation,
  { entry, target, source }: HostPaths,
  changed: Changes,
): [string, string][] {
  const within = (path: string, directory: string) => path === directory || path.startsWith(`${directory}/`);
  const isAsked: Readonly<Record<Operation['kind'], (path: string, change: string) => boolean>> = {
    write: (path) => path === target,
    stream: (path) => path === target,
    mkdir: (path, change) => change === 'made' && within(target, path),
    remove: (path, change) => change === 'removed' && within(path, entry),
    rename: (path) => within(path, entry) || within(path, source),
    copy: (path, change) =>
      change !== 'removed' && (within(path, entry) || within(path, target) || within(target, path)),
  };
  return [...changed].filter(([path, change]) => !isAsked[one.kind](path, change));
}

/** The changes of a failed operation that it may not leave. Trees are removed, copied and created step by step. */
function partial(one: Operation, paths: HostPaths, changed: Changes): [string, string][] {
  const isTree = 'recursive' in one && one.recursive;
  return isTree ? unexpected(one, paths, changed) : [...changed];
}
