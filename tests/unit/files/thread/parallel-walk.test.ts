import { execFileSync } from 'node:child_process';
import { mkdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import type { WalkOptions } from '../../../../src/files/file-system.ts';
import { FileThreads } from '../../../../src/files/file-threads.ts';
import { WALK_SHARED_DIRECTORIES } from '../../../../src/files/limits.ts';
import { walk } from '../../../../src/files/local/walk.ts';
import { type NativePath, nativePathOfText } from '../../../../src/files/native-path.ts';
import { walkOnThreads } from '../../../../src/files/thread/parallel-walk.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { temporaryDirectory } from '../local/temporary-tree.ts';
import { EVERYTHING } from '../walk-options.ts';

const NEVER = new AbortController().signal;
const WIDTH = WALK_SHARED_DIRECTORIES + 6;
const IDLE_MS = 60_000;

const threads = new FileThreads(undefined, IDLE_MS);
const run = vi.spyOn(threads, 'run');
const allThreads = [threads];

beforeAll(async () => {
  await withThreads(threads, 1);
  // A busy thread makes the walk request another one.
  const busy = walkOnThreads(threads, nativePathOfText('/proc/self'), EVERYTHING, NEVER);
  threads.prepare();
  await busy;
  await waitFor('two threads', () => threads.free === 2);
});

beforeEach(() => {
  run.mockClear();
});

afterAll(async () => {
  for (const each of allThreads) {
    // Aborted walks terminate their threads.
    while (each.free > 0) {
      const unwanted = new AbortController();
      const given = walkOnThreads(each, nativePathOfText('/'), EVERYTHING, unwanted.signal);
      unwanted.abort(new Error('over'));
      await expect(given).rejects.toThrow('over');
    }
    await waitFor('the end of the threads', () => each.count === 0);
  }
});

async function withThreads(some: FileThreads, count: number): Promise<void> {
  some.prepare();
  await waitFor('threads', () => some.free === count);
}

/** Two depths with many directories each, files and links between them, and one deeper branch. */
async function wideTree(): Promise<NativePath> {
  const root = await temporaryDirectory();
  for (let index = 0; index < WIDTH; index++) {
    const branch = join(root, `${index % 7 === 0 ? '.' : ''}d ${index}`);
    mkdirSync(join(branch, 'sub'), { recursive: true });
    for (const name of ['a', 'z', 'sub/f']) writeFileSync(join(branch, name), '');
    symlinkSync('sub', join(branch, 'link'));
  }
  mkdirSync(join(root, 'd 3/sub/deep/deeper'), { recursive: true });
  writeFileSync(join(root, 'd 3/sub/deep/deeper/f'), '');
  return root;
}

/** The result on all threads and without threads, which must be equal. */
async function walkedBothWays(root: NativePath, options: Partial<WalkOptions>) {
  const all = { ...EVERYTHING, ...options };
  const expected = await walk(root, all, NEVER);
  const { entries, errors, truncated } = (await walkOnThreads(threads, root, all, NEVER))!;
  expect({ entries, errors, truncated }).toEqual(expected);
  return expected;
}

/** The number of directories at the start of each job; the first job starts with none. */
function shares(): number[] {
  return run.mock.calls.map(([job]) =>
    job.kind === 'walk' && 'directories' in job.start ? job.start.directories.length : 0,
  );
}

test('all threads read many directories of one depth, and the order is kept', async () => {
  const { entries } = await walkedBothWays(await wideTree(), {});
  expect(entries).toHaveLength(WIDTH * 5 + 3);
  const half = WIDTH / 2;
  expect(shares()).toEqual([0, half, half, half, half, 1]);
});

test.each<Partial<WalkOptions>>([
  { maxDepth: 1 },
  { pruneHiddenDirectories: true },
  { followDirectorySymlinks: true },
  { maxEntries: WIDTH - 1 },
  { maxEntries: WIDTH + 1 },
  { maxEntries: 3 * WIDTH },
  { maxEntries: 5 * WIDTH + 2 },
  { maxEntries: 6 * WIDTH },
  { maxDirectories: WIDTH / 2 },
  { maxDirectories: WIDTH + 1 },
  { maxDirectories: WIDTH + 2 },
  { maxDirectories: 2 * WIDTH },
  { maxDirectories: 2 * WIDTH + 3 },
])('limits and options end a parallel walk where they end any walk (%o)', async (options) => {
  await walkedBothWays(await wideTree(), options);
});

test('a parallel walk ends like any walk at every limit', async () => {
  const root = await wideTree();
  const options = fc.record({
    maxDepth: fc.nat(4),
    maxEntries: fc.integer({ min: 1, max: 7 * WIDTH }),
    maxDirectories: fc.integer({ min: 1, max: 3 * WIDTH }),
    pruneHiddenDirectories: fc.boolean(),
  });
  const property = fc.asyncProperty(options, async (given) => void (await walkedBothWays(root, given)));
  await fc.assert(property, { numRuns: 50 });
});

test('errors are reported in order, and the response stays within its size', async () => {
  const root = await deepTree((index) => index % 20 === 3);
  const { errors, truncated } = await walkedBothWays(root, {});
  expect([errors.length, truncated]).toEqual([4, false]);
  fill(root, 20);
  expect((await walkedBothWays(root, {})).truncated).toBe(true);
});

test('entries after the end of a walk are not reported', async () => {
  const root = await deepTree((index) => index >= WIDTH / 2);
  fill(root, 2);
  const { errors, truncated } = await walkedBothWays(root, { maxEntries: WIDTH + 1 });
  expect([errors.length, truncated]).toEqual([0, true]);
});

/** Many directories with paths close to PATH_MAX, and beyond it where `isTooLong` says so. */
async function deepTree(isTooLong: (index: number) => boolean): Promise<NativePath> {
  const top = await temporaryDirectory();
  const above = Array.from({ length: 14 }, () => 'n'.repeat(250));
  above.push('m'.repeat(4_000 - 15 * 251 - top.length));
  for (let index = 0; index < WIDTH; index++) {
    const name = `d${String(index).padStart(3, '0')}`;
    mkdirSync(join(top, 'x', ...above, isTooLong(index) ? name.padEnd(200, 'x') : name), { recursive: true });
  }
  const renamed = join(top, 'y'.repeat(250));
  renameSync(join(top, 'x'), renamed);
  // So that the directory can be removed by its path.
  onTestFinished(() => renameSync(renamed, join(top, 'x')));
  return nativePathOfText(join(renamed, ...above));
}

/** Creates files in all directories that can be reached. */
function fill(root: NativePath, count: number): void {
  execFileSync('sh', ['-c', `for d in d???; do (cd $d && seq ${count} | xargs touch); done`], { cwd: root });
}

test('a single thread walks alone and requests another thread for the next walk', async () => {
  const one = new FileThreads(undefined, IDLE_MS);
  allThreads.push(one);
  await withThreads(one, 1);
  const root = await wideTree();
  const { entries } = (await walkOnThreads(one, root, EVERYTHING, NEVER))!;
  expect(entries).toEqual((await walk(root, EVERYTHING, NEVER)).entries);
  expect(one.count).toBe(2);
  await waitFor('the other one', () => one.free === 2);
});

test('returns the walk when there is no thread or one crashes', async () => {
  const root = await wideTree();
  expect(await walkOnThreads(new FileThreads(), root, EVERYTHING, NEVER)).toBeNull();
  run.mockImplementationOnce(FileThreads.prototype.run.bind(threads)).mockResolvedValueOnce(null);
  expect(await walkOnThreads(threads, root, EVERYTHING, NEVER)).toBeNull();
  await waitFor('the other thread', () => threads.free === 2);
});

test('an aborted walk stops', async () => {
  const unwanted = new AbortController();
  run.mockImplementationOnce(async (...args) => {
    const piece = await FileThreads.prototype.run.apply(threads, args);
    unwanted.abort(new Error('not wanted'));
    return piece;
  });
  const walking = walkOnThreads(threads, await wideTree(), EVERYTHING, unwanted.signal);
  await expect(walking).rejects.toThrow('not wanted');
  expect(shares()).toEqual([0, WIDTH / 2, WIDTH / 2]);
  expect(threads.free).toBe(2);
});

test('rejects invalid limits', async () => {
  const walking = walkOnThreads(threads, nativePathOfText('/'), { ...EVERYTHING, maxEntries: 0 }, NEVER);
  await expect(walking).rejects.toMatchObject({ kind: 'refused' });
  expect(run).not.toHaveBeenCalled();
});
