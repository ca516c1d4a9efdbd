import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeEach, expect, test } from 'vitest';
import {
  forgetEnvironment,
  MAX_DIRECTORIES,
  select,
  selectionFor,
} from '../../../src/cli/environments/selection.ts';

const home = mkdtempSync(join(tmpdir(), 'selection-'));
const env = { XDG_CONFIG_HOME: home };
const file = join(home, 'exec-server', 'directories.json');
beforeEach(() => rmSync(join(home, 'exec-server'), { recursive: true, force: true }));
afterAll(() => rmSync(home, { recursive: true }));

test('the nearest directory above decides', () => {
  select('/work', 'a', env);
  select('/work/gpu', 'b', env);
  expect(selectionFor('/work/gpu/src', env)).toEqual({ environment: 'b', directory: '/work/gpu' });
  expect(selectionFor('/work/other', env)).toEqual({ environment: 'a', directory: '/work' });
  expect(selectionFor('/workshop', env)).toBeNull();
  select('/work/gpu', null, env);
  expect(selectionFor('/work/gpu/src', env)).toEqual({ environment: 'a', directory: '/work' });
});

test('forgets an environment everywhere', () => {
  select('/a', 'x', env);
  select('/b', 'y', env);
  forgetEnvironment('x', env);
  expect(JSON.parse(readFileSync(file, 'utf8'))).toEqual({ '/b': 'y' });
});

test('remembers a limited number of directories and drops the first', () => {
  select('/first', 'x', env);
  const many = Object.fromEntries(
    Array.from({ length: MAX_DIRECTORIES - 1 }, (_, index) => [`/${index}x`, 'x']),
  );
  writeFileSync(file, JSON.stringify({ '/first': 'x', ...many }));
  select('/last', 'y', env);
  expect(selectionFor('/first', env)).toBeNull();
  expect(selectionFor('/0x', env)).not.toBeNull();
  expect(selectionFor('/last', env)).not.toBeNull();
  expect(Object.keys(JSON.parse(readFileSync(file, 'utf8')))).toHaveLength(MAX_DIRECTORIES);
});

test('replaces a file that is no JSON', () => {
  select('/a', 'x', env);
  writeFileSync(file, 'broken');
  expect(selectionFor('/a', env)).toBeNull();
  select('/a', 'y', env);
  expect(selectionFor('/a', env)?.environment).toBe('y');
});
