import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ALONE, MOCKED } from '../../../vitest.config.ts';

const TESTS = readdirSync('tests', { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.test.ts'))
  .map((name) => join('tests', name));

test('the configuration lists exactly the test files that mock modules', () => {
  expect(filesWith(/\bvi\.(?:mock|doMock)\('|\bvi\.spyOn\(metadata\b/).sort()).toEqual(MOCKED);
});

test('test files that count all children of their process do not share it', () => {
  const counting = filesWith(/\bexpect\(childPids\(\)/);
  expect(counting).not.toEqual([]);
  expect(counting.filter((file) => !MOCKED.includes(file) && !isAlone(file))).toEqual([]);
});

function filesWith(pattern: RegExp): string[] {
  return TESTS.filter((file) => pattern.test(readFileSync(file, 'utf8')));
}

function isAlone(file: string): boolean {
  return ALONE.some((pattern) => {
    const [folder, end] = pattern.split('/**/*');
    return end === undefined ? file === pattern : file.startsWith(`${folder}/`);
  });
}
