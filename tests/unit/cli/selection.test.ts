import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeEach, expect, test } from 'vitest';
import { MAX_DIRECTORIES, select, selectionFor } from '../../../src/cli/environments/selection.ts';

const home = mkdtempSync(join(tmpdir(), 'selection-'));
const env = { XDG_CONFIG_HOME: home };
const file = join(home, 'exec-server', 'directories.json');
beforeEach(() => rmSync(join(home, 'exec-server'), { recursive: true, force: true }));
afterAll(() => rmSync(home, { recursive: true }));

test('the nearest directory above decides', async () => {
  await select('/work', 'a', env);
  await select('/work/gpu', 'b', env);
  expect(selectionFor('/work/gpu/src', env)).toEqual({ environment: 'b', directory: '/work/gpu' });
  expect(selectionFor('/work/other', env)).toEqual({ environment: 'a', directory: '/work' });
  expect(selectionFor('/workshop', env)).toBeNull();
  await select('/work/gpu', null, env);
  expect(selectionFor('/work/gpu/src', env)).toEqual({ environment: 'a', directory: '/work' });
});

test('remembers a limited number of directories and drops the first', async () => {
  await select('/first', 'x', env);
  const many = Object.fromEntries(
    Array.from({ length: MAX_DIRECTORIES - 1 }, (_, index) => [`/${index}x`, 'x']),
  );
  writeFileSync(file, JSON.stringify({ '/first': 'x', ...many }));
  await select('/last', 'y', env);
  expect(selectionFor('/first', env)).toBeNull();
  expect(selectionFor('/0x', env)).not.toBeNull();
  expect(selectionFor('/last', env)).not.toBeNull();
  expect(Object.keys(JSON.parse(readFileSync(file, 'utf8')))).toHaveLength(MAX_DIRECTORIES);
});

test('choices that are made at the same time are all kept', async () => {
  const directories = Array.from({ length: 20 }, (_, index) => `/${index}`);
  await Promise.all(directories.map((directory) => select(directory, 'x', env)));
  expect(Object.keys(JSON.parse(readFileSync(file, 'utf8'))).sort()).toEqual(directories.toSorted());
});

test('replaces a file that is no JSON', async () => {
  await select('/a', 'x', env);
  writeFileSync(file, 'broken');
  expect(selectionFor('/a', env)).toBeNull();
  await select('/a', 'y', env);
  expect(selectionFor('/a', env)?.environment).toBe('y');
});

test('nothing was chosen where the home is no directory', () => {
  expect(selectionFor('/work', { HOME: '/dev/null' })).toBeNull();
});
