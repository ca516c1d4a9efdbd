import {
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { replaceFile } from '../../../src/cli/replace-file.ts';

let folder: string;
let path: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'replace-file-'));
  path = join(folder, 'settings');
});

afterEach(() => rmSync(folder, { recursive: true, force: true }));

test('replaces the text and the mode', () => {
  writeFileSync(path, 'old', { mode: 0o644 });
  replaceFile(path, 'new', { mode: 0o600 });
  expect(readFileSync(path, 'utf8')).toBe('new');
  expect(statSync(path).mode & 0o777).toBe(0o600);
  expect(readdirSync(folder)).toEqual(['settings']);
});

test('keeps the old file and leaves no draft when the new one cannot be prepared', () => {
  writeFileSync(path, 'old');
  const prepare = () => {
    throw new Error('not the owner');
  };
  expect(() => replaceFile(path, 'new', { mode: 0o600, prepare })).toThrow('not the owner');
  expect(readFileSync(path, 'utf8')).toBe('old');
  expect(readdirSync(folder)).toEqual(['settings']);
});

test('does not write through a link that has the name of its draft', () => {
  writeFileSync(join(folder, 'other'), 'untouched');
  symlinkSync('other', `${path}.${process.pid}.tmp`);
  replaceFile(path, 'new', { mode: 0o600 });
  expect(readFileSync(join(folder, 'other'), 'utf8')).toBe('untouched');
  expect(readdirSync(folder).sort()).toEqual(['other', 'settings']);
});
