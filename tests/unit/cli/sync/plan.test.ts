import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Plan, planSync } from '../../../../src/cli/sync/plan.ts';
import {
  ancestorsOf,
  type Entry,
  isOpaque,
  joined,
  parentOf,
  type Tree,
} from '../../../../src/cli/sync/tree.ts';

const file = (size = 1, mtimeMs = 1, mode = 0o644): Entry => ({ kind: 'file', size, mtimeMs, mode });
const directory = (mode = 0o755): Entry => ({ kind: 'directory', mode });
const link = (target = 'x'): Entry => ({ kind: 'link', target });
const treeOf = (entries: Record<string, Entry>): Tree => new Map(Object.entries(entries));

/** Carries a plan out on a tree, and fails where a real file system would. */
function applied(destination: Tree, plan: Plan): Map<string, Entry> {
  const result = new Map(destination);
  const needDirectory = (path: string) => {
    const parent = parentOf(path);
    if (parent !== '' && result.get(parent)?.kind !== 'directory')
      throw new Error(`no directory for ${path}`);
  };
  const remove = (path: string) => {
    if ([...result.keys()].some((other) => parentOf(other) === path)) throw new Error(`${path} is not empty`);
    if (!result.delete(path)) throw new Error(`${path} does not exist`);
  };
  for (const { path } of plan.clears) remove(path);
  for (const path of plan.directories) {
    needDirectory(path);
    if (result.has(path)) throw new Error(`${path} exists`);
    result.set(path, directory(0o700));
  }
  for (const { path, entry } of [...plan.copies, ...plan.comparisons]) {
    needDirectory(path);
    if (![undefined, 'file'].includes(result.get(path)?.kind)) throw new Error(`${path} is no file`);
    result.set(path, entry);
  }
  for (const { path, target } of plan.links) {
    needDirectory(path);
    if (![undefined, 'link'].includes(result.get(path)?.kind)) throw new Error(`${path} is no link`);
    result.set(path, { kind: 'link', target });
  }
  for (const { path } of plan.deletions) remove(path);
  for (const { path, attributes } of [...plan.attributes, ...plan.directoryModes]) {
    const { mtimeMs, ...rest } = attributes;
    result.set(path, { ...result.get(path)!, ...rest, ...(mtimeMs !== undefined && { mtimeMs }) } as Entry);
  }
  return result;
}

const leaf = fc.oneof(
  fc.record({
    kind: fc.constant('file' as const),
    size: fc.nat(2),
    mtimeMs: fc.nat(2),
    mode: fc.constantFrom(0o644, 0o755),
  }),
  fc.record({ kind: fc.constant('link' as const), target: fc.constantFrom('a', '/etc') }),
  fc.record({ kind: fc.constantFrom('ignored' as const, 'unreadable' as const, 'special' as const) }),
);
interface Node {
  readonly entry: Entry;
  readonly below: Readonly<Record<string, Node>>;
}
const names = fc.constantFrom('a', 'b', 'c');
const { node } = fc.letrec<{ node: Node }>((tie) => ({
  node: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    leaf.map((entry) => ({ entry: entry as Entry, below: {} })),
    fc
      .tuple(fc.constantFrom(0o755, 0o700), fc.dictionary(names, tie('node'), { maxKeys: 3 }))
      .map(([mode, below]) => ({ entry: directory(mode), below })),
  ),
}));
const trees = fc.dictionary(names, node, { maxKeys: 3 }).map((below) => {
  const tree = new Map<string, Entry>();
  const add = (path: string, nodes: Readonly<Record<string, Node>>) => {
    for (const [name, { entry, below: deeper }] of Object.entries(nodes)) {
      tree.set(joined(path, name), entry);
      add(joined(path, name), deeper);
    }
  };
  add('', below);
  return tree;
});

const isAtOrBelow = (path: string, paths: ReadonlySet<string>) =>
  [path, ...ancestorsOf(path)].some((each) => paths.has(each));

describe('a plan for any two trees', () => {
  test('makes the destination equal to the source, except for conflicts, extra and ignored names', () => {
    fc.assert(
      fc.property(trees, trees, fc.boolean(), (source, destination, deletes) => {
        const plan = planSync(source, destination, { deletes });
        const result = applied(destination, plan);
        const conflicts = new Set(plan.conflicts.map(({ path }) => path));
        const opaqueInSource = new Set(
          [...source].filter(([, entry]) => isOpaque(entry)).map(([path]) => path),
        );
        for (const [path, entry] of source) {
          if (isOpaque(entry) || isAtOrBelow(path, conflicts)) continue;
          expect([path, result.get(path)]).toEqual([path, entry]);
        }
        for (const [path, entry] of result) {
          if (source.has(path) && !isAtOrBelow(path, conflicts)) continue;
          // What the source does not have is unchanged. With deletes it is there for a reason.
          expect([path, entry]).toEqual([path, destination.get(path)]);
          const holds = [...result].some(([other, below]) => other.startsWith(`${path}/`) && isOpaque(below));
          const isProtected =
            isOpaque(entry) || holds || isAtOrBelow(path, conflicts) || isAtOrBelow(path, opaqueInSource);
          if (deletes) expect([path, isProtected]).toEqual([path, true]);
        }
        // Nothing that is ignored or unreadable is ever removed.
        for (const [path, entry] of destination) if (isOpaque(entry)) expect(result.get(path)).toEqual(entry);
        if (!deletes) expect(plan.deletions).toEqual([]);
      }),
      { numRuns: 700 },
    );
  });

  test('has nothing to do afterwards', () => {
    fc.assert(
      fc.property(trees, trees, fc.boolean(), (source, destination, deletes) => {
        const again = planSync(source, applied(destination, planSync(source, destination, { deletes })), {
          deletes,
        });
        const { conflicts: _, skipped: __, unchanged: ___, kept: ____, ...work } = again;
        expect(Object.values(work).flat()).toEqual([]);
      }),
      { numRuns: 500 },
    );
  });
});

describe('a plan', () => {
  test('compares files with the same size and another time, and copies others', () => {
    const source = treeOf({ same: file(), touched: file(1, 2), longer: file(2, 1), mode: file(1, 1, 0o755) });
    const destination = treeOf({ same: file(), touched: file(), longer: file(), mode: file() });
    const plan = planSync(source, destination, { deletes: false });
    expect(plan.comparisons.map(({ path, attributes }) => [path, attributes])).toEqual([
      ['touched', { mtimeMs: 2 }],
    ]);
    expect(plan.copies.map(({ path }) => path)).toEqual(['longer']);
    expect(plan.attributes).toEqual([{ path: 'mode', attributes: { mode: 0o755 } }]);
    expect(plan.unchanged).toBe(1);
  });

  test('removes a directory with content for a file only with deletes, and an empty one always', () => {
    const source = treeOf({ full: file(), empty: link() });
    const destination = treeOf({ full: directory(), 'full/x': file(), empty: directory() });
    const kept = planSync(source, destination, { deletes: false });
    expect(kept.conflicts).toEqual([
      { path: 'full', reason: 'a directory that is not empty is in the way; --delete removes it' },
    ]);
    expect(kept.clears).toEqual([{ path: 'empty', kind: 'directory' }]);
    const removed = planSync(source, destination, { deletes: true });
    expect(removed.clears.map(({ path }) => path)).toEqual(['empty', 'full/x', 'full']);
    expect(removed.conflicts).toEqual([]);
  });

  test('does not delete a directory that holds an ignored file', () => {
    const destination = treeOf({
      gone: directory(),
      'gone/old': file(),
      'gone/secret': { kind: 'ignored' },
      other: directory(),
    });
    const plan = planSync(new Map(), destination, { deletes: true });
    expect(plan.deletions.map(({ path }) => path)).toEqual(['other', 'gone/old']);
    expect(plan.kept).toBe(1);
  });

  test('leaves alone what the source could not read', () => {
    const source = treeOf({ locked: { kind: 'unreadable' } });
    const destination = treeOf({ locked: directory(), 'locked/a': file(), 'locked/b': directory() });
    const plan = planSync(source, destination, { deletes: true });
    expect(plan.deletions).toEqual([]);
    expect(plan.kept).toBe(2);
  });
});
