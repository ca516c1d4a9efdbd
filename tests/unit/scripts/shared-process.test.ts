import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { SHARED } from '../../../vitest.config.ts';

test('test files that share a process do not mock modules', () => {
  const folders = /\{(.*?)\}/.exec(SHARED)?.[1]?.split(',') ?? [];
  expect(folders).not.toEqual([]);
  const mocking = folders
    .flatMap((folder) => testFiles(join('tests/unit', folder)))
    .filter((file) => /\bvi\.(?:mock|doMock)\(/.test(readFileSync(file, 'utf8')));
  expect(mocking).toEqual([]);
});

function testFiles(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.test.ts'))
    .map((name) => join(folder, name));
}
