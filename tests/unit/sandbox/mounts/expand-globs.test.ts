import type { Dirent } from 'node:fs';
import { expect, test } from 'vitest';
import { GLOB_STEPS_PER_TURN } from '../../../../src/files/limits.ts';
import { expandGlobs } from '../../../../src/sandbox/mounts/expand-globs.ts';
import { type FileProbe, localProbe } from '../../../../src/sandbox/mounts/file-probe.ts';
import { native } from '../native.ts';
import { useTree } from './tree.ts';

const tree = useTree();

/** The real disk, with many files of one name in every directory. */
function withFiles(count: number, name: string): FileProbe {
  const entry = { name, isFile: () => true, isDirectory: () => false } as Dirent;
  return {
    ...localProbe,
    entries: async function* () {
      yield Array<Dirent>(count).fill(entry);
    },
  };
}

const NAME = 'a'.repeat(250);
const GLOBS = Array.from({ length: 255 }, (_, index) => `*${'a'.repeat(90)}b${index}`);

test('gives other requests their turns while it compares long names with many patterns', async () => {
  const globs = GLOBS.map((pattern) => ({ pattern: native(`${tree.path}/${pattern}`), maxDepth: null }));
  let turns = 0;
  const count = () => {
    turns++;
    ticking = setImmediate(count);
  };
  let ticking = setImmediate(count);
  const found = await expandGlobs(globs, withFiles(100, NAME));
  clearImmediate(ticking);
  expect(found.files).toEqual([]);
  // Each pattern takes three steps or more for each of 250 characters.
  expect(turns).toBeGreaterThan((100 * 255 * 3 * 250) / GLOB_STEPS_PER_TURN / 2);
});

test('refuses patterns that take too long for the number of files', async () => {
  const globs = [{ pattern: native(`${tree.path}/*x`), maxDepth: null }];
  await expect(expandGlobs(globs, withFiles(10, NAME), 10 * 250)).resolves.toMatchObject({ files: [] });
  await expect(expandGlobs(globs, withFiles(11, NAME), 10 * 250)).rejects.toThrow(
    'set `glob_scan_max_depth`',
  );
});
