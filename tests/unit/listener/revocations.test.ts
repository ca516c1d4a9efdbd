import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { afterAll, expect, test } from 'vitest';
import { MAX_REVOCATION_FILE_BYTES } from '../../../src/listener/limits.ts';
import { canBeRevoked, Revocations } from '../../../src/listener/revocations.ts';
import { StartError } from '../../../src/listener/start-error.ts';
import { waitFor } from '../../support/wait-for.ts';

const folder = mkdtempSync(join(tmpdir(), 'revocations-'));
const file = join(folder, 'list');
afterAll(() => rmSync(folder, { recursive: true }));

test('reads one id per line and ignores comments', async () => {
  writeFileSync(file, '# lost in May\none\n  two words  # Bob\r\n\nthree');
  const list = await Revocations.open(file, '--list');
  const known = ['one', 'two words', 'three', '', '# lost in May', 'Bob'].filter((id) => list.has(id));
  expect(known).toEqual(['one', 'two words', 'three']);
});

test('revokes no token without a file', async () => {
  const list = await Revocations.open(null, '--list');
  await list.reload();
  expect(list.has('')).toBe(false);
});

test('fails the start with an unreadable list, and keeps the previous list on reload', async () => {
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
  ['a pipe, which is empty on the second read', join(folder, 'pipe')],
  ['a directory', folder],
  ['a device', '/dev/null'],
])('refuses %s', async (_name, path) => {
  if (path.endsWith('pipe')) execFileSync('mkfifo', [path]);
  await expect(Revocations.open(path, '--list')).rejects.toThrow(/not a file/);
});

test.each(['utf16le', 'latin1'] as const)(
  'keeps the previous list when the new one is in %s, where no id would match',
  async (encoding) => {
    writeFileSync(file, 'one');
    const list = await Revocations.open(file, '--list');
    writeFileSync(file, Buffer.from('one\ntwo # für Bob\n', encoding));
    await expect(list.reload()).rejects.toThrow(/UTF-8/);
    expect(['one', 'two'].filter((id) => list.has(id))).toEqual(['one']);
  },
);

test('does not replace a newer list by one that took longer to read', async () => {
  let content = 'old';
  const reads: (() => void)[] = [];
  const read = () => {
    const seen = content;
    return new Promise<string>((resolve) => reads.push(() => resolve(seen)));
  };
  /** Finishes the read that started last. */
  const endOne = async () => {
    await waitFor('a read', () => reads.length > 0);
    reads.pop()!();
  };
  const opening = Revocations.open('list', '--list', read);
  await endOne();
  const list = await opening;
  const first = list.reload();
  await waitFor('the first read', () => reads.length === 1);
  content = 'newest';
  const second = list.reload();
  // All callers that wait share one further read.
  expect(list.reload()).toBe(second);
  await setImmediate();
  await endOne();
  await endOne();
  await Promise.all([first, second]);
  expect(['old', 'newest'].filter((id) => list.has(id))).toEqual(['newest']);
});

test('reloads after a failed reload', async () => {
  writeFileSync(file, 'one');
  const list = await Revocations.open(file, '--list');
  rmSync(file);
  const failing = list.reload();
  await expect(failing).rejects.toThrow(/ENOENT/);
  writeFileSync(file, 'two');
  await list.reload();
  expect(list.has('two')).toBe(true);
});

test.each([
  ['one', true],
  ['two words', true],
  ['', false],
  [' one', false],
  ['a#b', false],
  ['a\nb', false],
  ['a\0b', false],
])('reports whether %j can be revoked: %j', async (id, possible) => {
  expect(canBeRevoked(id)).toBe(possible);
  writeFileSync(file, id);
  const found = Revocations.open(file, '--list').then(
    (list) => list.has(id),
    () => false,
  );
  expect(await found).toBe(possible);
});
