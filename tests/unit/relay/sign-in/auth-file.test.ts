import { mkdirSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { open as openFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { AuthFile } from '../../../../src/relay/sign-in/auth-file.ts';
import { codexFolder, fileLock, recordedLog } from './auth-fixture.ts';

function open(files: Record<string, unknown>) {
  const folder = codexFolder(files);
  return { folder, file: new AuthFile(folder, fileLock, recordedLog().log) };
}

test('overwrites the file where no file can be created beside it', async () => {
  const { folder, file } = open({ 'auth.json': { long: 'x'.repeat(1_000) } });
  mkdirSync(join(folder, `auth.json.${process.pid}.tmp`));
  const before = statSync(file.path).ino;
  await file.write({ short: 1 });
  expect(readFileSync(file.path, 'utf8')).toBe('{\n  "short": 1\n}\n');
  expect(statSync(file.path).ino).toBe(before);
});

test('keeps the file, and leaves nothing behind, when the disk is full', async () => {
  const { folder, file } = open({ 'auth.json': { before: 1 } });
  const handle = await openFile(file.path);
  const prototype = Object.getPrototypeOf(handle) as typeof handle;
  await handle.close();
  const full = Object.assign(new Error('no space left'), { code: 'ENOSPC' });
  const writing = vi.spyOn(prototype, 'writeFile').mockRejectedValueOnce(full);
  onTestFinished(() => writing.mockRestore());
  await expect(file.write({ after: 1 })).rejects.toThrow('no space left');
  expect(readFileSync(file.path, 'utf8')).toBe('{"before":1}');
  expect(readdirSync(folder)).toEqual(['auth.json']);
});

test.each([
  ['[]', 'is not a JSON object'],
  ['{', 'is not a JSON object'],
  ['x'.repeat(256 * 1024 + 1), 'it has more than 262144 bytes'],
])('rejects a file that is not a login', async (content, why) => {
  const { file } = open({ 'auth.json': content });
  await expect(file.read()).rejects.toThrow(why);
});

test('reports a missing file, and a folder in its place', async () => {
  const { folder, file } = open({});
  expect(await file.read()).toBeNull();
  mkdirSync(join(folder, 'auth.json'));
  await expect(file.read()).rejects.toThrow('it is a directory');
});

test('has the lock that codex uses', async () => {
  const { folder, file } = open({});
  const other = new AuthFile(folder, fileLock, recordedLog().log, { lockTimeoutMs: 1 });
  await file.locked(async () => {
    if (fileLock !== null) await expect(other.locked(async () => {})).rejects.toThrow('auth.lock locked');
  });
  await other.locked(async () => {});
});
