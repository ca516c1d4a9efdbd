import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { canBeRevoked, Revocations } from '../../../../src/server/auth/revocations.ts';
import { MAX_REVOCATION_FILE_BYTES } from '../../../../src/server/limits.ts';
import { StartError } from '../../../../src/server/start-error.ts';

const folder = mkdtempSync(join(tmpdir(), 'revocations-'));
const file = join(folder, 'list');
afterAll(() => rmSync(folder, { recursive: true }));

test('there is an id on each line, and comments', async () => {
  writeFileSync(file, '# lost in May\none\n  two words  # Bob\r\n\nthree');
  const list = await Revocations.open(file, '--list');
  const known = ['one', 'two words', 'three', '', '# lost in May', 'Bob'].filter((id) => list.has(id));
  expect(known).toEqual(['one', 'two words', 'three']);
});

test('without a file nothing is revoked', async () => {
  const list = await Revocations.open(null, '--list');
  await list.reload();
  expect(list.has('')).toBe(false);
});

test('a list that cannot be read stops the start, and changes nothing later', async () => {
  const missing = Revocations.open(join(folder, 'missing'), '--list');
  await expect(missing).rejects.toThrow(StartError);
  await expect(missing).rejects.toThrow(
    /^cannot read the list of revoked tokens .*missing \(--list\): ENOENT/,
  );
  writeFileSync(file, 'one');
  const list = await Revocations.open(file, '--list');
  writeFileSync(file, Buffer.alloc(MAX_REVOCATION_FILE_BYTES + 1, '\n'));
  await expect(list.reload()).rejects.toThrow(/too large/);
  expect(list.has('one')).toBe(true);
});

test.each([
  ['one', true],
  ['two words', true],
  ['', false],
  [' one', false],
  ['a#b', false],
  ['a\nb', false],
])('whether %j can be revoked: %j', async (id, possible) => {
  expect(canBeRevoked(id)).toBe(possible);
  writeFileSync(file, id);
  expect((await Revocations.open(file, '--list')).has(id)).toBe(possible);
});
