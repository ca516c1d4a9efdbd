import { execFileSync } from 'node:child_process';
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

test('keeps the old login when the disk gets full while the file is overwritten', async () => {
  const { folder, file } = open({ 'auth.json': { before: 'x'.repeat(1_000) } });
  const before = readFileSync(file.path, 'utf8');
  // The limit of the file size ends a write in the middle, as a full disk does.
  const script = `
    import { mkdirSync } from 'node:fs';
    import { AuthFile } from ${JSON.stringify(new URL('../../../../dist/relay/sign-in/auth-file.js', import.meta.url))};
    mkdirSync(${JSON.stringify(file.path)} + '.' + process.pid + '.tmp');
    const file = new AuthFile(${JSON.stringify(folder)}, null, null);
    await file.write({ after: 'y'.repeat(100_000) }).catch(({ code }) => console.log(code));
  `;
  const command = 'ulimit -f 16; exec "$0" --input-type=module -e "$1"';
  expect(execFileSync('sh', ['-c', command, process.execPath, script]).toString()).toBe('EFBIG\n');
  expect(readFileSync(file.path, 'utf8')).toBe(before);
});

test('writes a login without blanks when they would make it too long to read', async () => {
  const many = { list: Array.from({ length: 40_000 }, () => [1]) };
  const { file } = open({ 'auth.json': many });
  await file.write(many);
  expect(await file.read()).toEqual(many);
});

test('keeps the old login when the new one would be too long to read', async () => {
  const { folder, file } = open({ 'auth.json': { before: 1 } });
  await expect(file.write({ after: 'x'.repeat(256 * 1024) })).rejects.toThrow(
    'the new content has more than 262144 bytes; the file keeps its old content',
  );
  expect(readFileSync(file.path, 'utf8')).toBe('{"before":1}');
  expect(readdirSync(folder)).toEqual(['auth.json']);
});

test.each([
  [127, true],
  [128, false],
  [60_000, false],
])('a login that is nested %i levels deep is read: %s', async (depth, isRead) => {
  const { file } = open({ 'auth.json': `{"a":${'['.repeat(depth - 1)}${']'.repeat(depth - 1)}}` });
  if (isRead) {
    const json = (await file.read())!;
    await file.write(json);
    expect(await file.read()).toEqual(json);
  } else await expect(file.read()).rejects.toThrow('is nested deeper than 127 levels');
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
