import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { findProgram } from '../../../../src/process/spawn/program-lookup.ts';

let root: string;

beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), 'lookup-'));
  for (const folder of ['first', 'second', 'far/deep']) mkdirSync(join(root, folder), { recursive: true });
  file('first/plain', 0o644);
  file('first/both', 0o644);
  file('second/both', 0o755);
  file('second/only', 0o755);
  file('far/tool', 0o755);
  mkdirSync(join(root, 'first/folder'));
  symlinkSync(join(root, 'far/deep'), join(root, 'link'));
});

afterAll(() => rmSync(root, { recursive: true }));

function file(name: string, mode: number): void {
  writeFileSync(join(root, name), '#!/bin/sh\n');
  chmodSync(join(root, name), mode);
}

function find(program: string, path?: string): Promise<string> {
  return findProgram({ program, cwd: root, env: path === undefined ? {} : { PATH: path } });
}

test('takes the first executable file on PATH and skips files that cannot be executed', async () => {
  const path = `${root}/first:${root}/second`;
  expect(await find('both', path)).toBe(`${root}/second/both`);
  expect(await find('only', path)).toBe(`${root}/second/only`);
});

test('resolves relative and empty PATH entries against cwd', async () => {
  expect(await find('only', 'first:second')).toBe('second/only');
  await expect(find('both', ':second')).resolves.toBe('second/both');
  const inSecond = findProgram({ program: 'only', cwd: join(root, 'second'), env: { PATH: '' } });
  expect(await inSecond).toBe('./only');
});

test('searches the system directories when the child has no PATH', async () => {
  expect(await find('sh')).toMatch(/\/bin\/sh$/);
});

test('takes a name with a slash unchanged, relative to cwd, and follows links before `..`', async () => {
  expect(await find('./second/only')).toBe('./second/only');
  expect(await find(`${root}/second/only`)).toBe(`${root}/second/only`);
  expect(await find('link/../tool')).toBe('link/../tool');
});

test.each([
  ['absent', '/nowhere', 'ENOENT', 'program not found on PATH: absent (PATH=/nowhere)'],
  ['plain', 'first', 'EACCES', 'first/plain is not executable (PATH=first)'],
  ['folder', 'first', 'EACCES', 'first/folder is not executable (PATH=first)'],
  ['', 'first', 'ENOENT', 'program is empty'],
  ['./absent', '', 'ENOENT', 'program ./absent does not exist'],
  ['first/plain', '', 'EACCES', 'first/plain is not executable'],
  ['./first', '', 'EACCES', './first is not a regular file'],
  ['first/plain/x', '', 'ENOTDIR', 'program first/plain/x cannot be run (ENOTDIR)'],
])('rejects %j on PATH %j with %s', async (program, path, code, message) => {
  await expect(find(program, path)).rejects.toMatchObject({ name: 'SpawnError', code, message });
});

// Root may search every directory.
test.skipIf(process.getuid?.() === 0)('says that a directory of the path is not accessible', async () => {
  const hidden = join(root, 'hidden');
  mkdirSync(hidden, { mode: 0 });
  const message = `program ${hidden}/x cannot be reached: a directory of its path is not accessible`;
  await expect(find(`${hidden}/x`)).rejects.toMatchObject({ code: 'EACCES', message });
  chmodSync(hidden, 0o700);
});
