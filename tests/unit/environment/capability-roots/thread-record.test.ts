import { describe, expect, it } from 'vitest';
import { selectRoot } from '../../../../src/environment/capability-roots/selected-root.ts';
import {
  forkThread,
  restoreSelection,
  selectionMetadata,
} from '../../../../src/environment/capability-roots/thread-record.ts';
import { MAX_SELECTED_ROOTS } from '../../../../src/environment/limits.ts';
import { rootIn } from './support.ts';

const root = rootIn('worker', 'plugin@1');

/** Writes a record to a log and reads it back. */
function stored(metadata: object): Record<string, unknown> {
  return JSON.parse(JSON.stringify(metadata));
}

describe('a selected root', () => {
  it.each([
    ['file:///opt/plugin', 'file:///opt/plugin'],
    ['FILE:/opt/./plugin', 'file:///opt/plugin'],
    ['/opt/a b/é', 'file:///opt/a%20b/%C3%A9'],
    ['/opt/x/../plugin', 'file:///opt/plugin'],
    ['C:\\Plug ins\\one', 'file:///C:/Plug%20ins/one'],
    ['c:/plugins', 'file:///c:/plugins'],
    ['\\\\host\\share\\one', 'file://host/share/one'],
  ])('keeps the path %s as %s', (path, uri) => {
    expect(selectRoot({ id: 'r', environmentId: 'e', path }).location.path).toBe(uri);
  });

  it.each([
    [{ path: 'plugins/one' }, 'not absolute'],
    [{ path: '' }, 'not absolute'],
    [{ path: 'file:///opt?x' }, 'query parameters'],
    [{ path: 'file:///opt/%00' }, 'is invalid'],
    [{ path: '/opt/\0' }, 'is invalid'],
    [{ id: ' ' }, 'blank id'],
    [{ environmentId: '' }, 'names no environment'],
  ])('is invalid: %j', (part, message) => {
    expect(() => selectRoot({ id: 'r', environmentId: 'e', path: '/x', ...part })).toThrow(
      expect.objectContaining({ kind: 'invalidInput', message: expect.stringContaining(message) }),
    );
  });
});

describe('the metadata of a thread', () => {
  it('has the root id, environment id and path, and no other members', () => {
    const laden = { ...root, handle: {}, ready: true, location: { ...root.location, skills: ['x'] } };
    expect(stored(selectionMetadata([laden]))).toEqual({
      selected_capability_roots: [
        {
          id: 'plugin@1',
          location: { type: 'environment', environmentId: 'worker', path: 'file:///roots/plugin@1' },
        },
      ],
    });
  });

  it('has no member when nothing is selected', () => {
    expect(selectionMetadata([])).toEqual({});
  });

  it('restores the selection', () => {
    const roots = [root, rootIn('local', 'other')];
    expect(restoreSelection(stored(selectionMetadata(roots)))).toEqual(roots);
  });

  it.each([[{}], [{ selected_capability_roots: null }], [{ id: 'thread', cwd: '/' }]])(
    'of an older thread, %j, has no selection',
    (metadata) => {
      expect(restoreSelection(metadata)).toEqual([]);
    },
  );

  it('is overridden by an explicit selection, even an empty one', () => {
    const other = [rootIn('worker', 'other')];
    expect(restoreSelection(selectionMetadata([root]) as Record<string, unknown>, other)).toEqual(other);
    expect(restoreSelection(selectionMetadata([root]) as Record<string, unknown>, [])).toEqual([]);
  });

  it.each([
    ['a text', 'plugin@1'],
    ['no location', [{ id: 'x' }]],
    ['another type of place', [{ id: 'x', location: { ...root.location, type: 'cloud' } }]],
    ['a relative path', [{ id: 'x', location: { ...root.location, path: 'x' } }]],
    ['null', [null]],
  ])('with an invalid selection, %s, is an error', (_, broken) => {
    expect(() => restoreSelection({ selected_capability_roots: broken })).toThrow(
      expect.objectContaining({ kind: 'invalidData' }),
    );
  });

  it('has a limited number of roots', () => {
    const many = (count: number) => Array.from({ length: count }, (_, index) => rootIn('e', `r${index}`));
    expect(selectionMetadata(many(MAX_SELECTED_ROOTS)).selected_capability_roots).toHaveLength(
      MAX_SELECTED_ROOTS,
    );
    const tooMany = expect.objectContaining({ kind: 'invalidInput' });
    expect(() => selectionMetadata(many(MAX_SELECTED_ROOTS + 1))).toThrow(tooMany);
    const record = { selected_capability_roots: many(MAX_SELECTED_ROOTS + 1) };
    expect(() => restoreSelection(record)).toThrow(tooMany);
  });
});

describe('a fork', () => {
  const parent = { metadata: stored({ id: 'parent', ...selectionMetadata([root]) }), turns: ['a', 'b', 'c'] };

  it.each([
    [undefined, ['a', 'b', 'c']],
    [2, ['b', 'c']],
    [1, ['c']],
    [0, []],
    [9, ['a', 'b', 'c']],
  ])('inherits the selection with the last %s turns', (lastTurns, turns) => {
    const fork = forkThread(parent, lastTurns === undefined ? {} : { lastTurns });
    expect(fork).toEqual({ metadata: selectionMetadata([root]), turns });
  });

  it('of a fork inherits it, too', () => {
    const child = forkThread(parent, { lastTurns: 1 });
    const grandchild = forkThread({ ...child, metadata: stored(child.metadata) }, { lastTurns: 0 });
    expect(restoreSelection(stored(grandchild.metadata))).toEqual([root]);
  });

  it('can have a selection of its own', () => {
    expect(forkThread(parent, { roots: [] }).metadata).toEqual({});
  });

  it('of an older thread has no selection', () => {
    expect(forkThread({ metadata: { id: 'old' }, turns: [1] })).toEqual({ metadata: {}, turns: [1] });
  });
});
