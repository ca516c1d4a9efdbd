import { readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { expect, test } from 'vitest';
import { REPLACES_MODULES, SHARED } from '../../../vitest.config.ts';

test('a test file that replaces modules shares its process with no other', () => {
  const rooms = /\{(.*?)\}/.exec(SHARED)?.[1]?.split(',') ?? [];
  const replacing = rooms
    .flatMap((room) => testFiles(join('tests/unit', room)))
    .filter((file) => /\bvi\.(?:mock|doMock)\(/.test(readFileSync(file, 'utf8')))
    .map((file) => basename(file, '.test.ts'));

  const listed = /\{(.*?)\}/.exec(REPLACES_MODULES)?.[1]?.split(',') ?? [];
  expect(replacing.sort()).toEqual(listed.sort());
});

function testFiles(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.test.ts'))
    .map((name) => join(folder, name));
}
