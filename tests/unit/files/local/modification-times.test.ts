import { mkdtempSync, rmSync, statSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { lstat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { LOCAL_FILE_SYSTEM } from '../../../../src/files/local/local-file-system.ts';
import { nativePathOfText } from '../../../../src/files/native-path.ts';

const folder = mkdtempSync(join(tmpdir(), 'times-'));
afterAll(() => rmSync(folder, { recursive: true }));
const OLD = 1_500_000_000_000;

/** The years -29719, 1, 1969, 2477, 5138 and 271821. Most file systems cannot store all of them. */
const TIMES = [-1e15, -62_135_596_800_000, -1, 16_000_000_000_000, 99_999_999_999_999, 8.5e15];

test.each(TIMES)('the modification time %d is stored, or refused without another change', async (wanted) => {
  const file = join(folder, `file ${wanted}`);
  writeFileSync(file, '', { mode: 0o644 });
  utimesSync(file, OLD / 1000, OLD / 1000);
  const setting = LOCAL_FILE_SYSTEM.setAttributes(nativePathOfText(file), {
    mode: 0o600,
    modifiedAtMs: wanted,
  });
  const refused = await setting.then(
    () => null,
    (error: Error) => error.message,
  );
  const { mtimeMs, mode } = statSync(file);
  if (refused === null) expect([Math.round(mtimeMs), mode & 0o777]).toEqual([wanted, 0o600]);
  else {
    expect(refused).toBe(
      `the file system of this path cannot store the modification time ${wanted} (modifiedAtMs)`,
    );
    expect([Math.round(mtimeMs), mode & 0o777]).toEqual([OLD, 0o644]);
  }
});

test.each(['file', 'link'])('a time that no date has is refused for a %s', async (kind) => {
  const path = join(folder, `no date ${kind}`);
  if (kind === 'file') writeFileSync(path, '');
  else symlinkSync('nowhere', path);
  const before = (await lstat(path)).mtimeMs;
  const setting = LOCAL_FILE_SYSTEM.setAttributes(nativePathOfText(path), { modifiedAtMs: 8.7e15 });
  await expect(setting).rejects.toThrow('cannot store the modification time 8700000000000000');
  expect((await lstat(path)).mtimeMs).toBe(before);
});
