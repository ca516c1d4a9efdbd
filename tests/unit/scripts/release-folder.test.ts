import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { replaceReleaseFolder } from '../../../scripts/binary/release-folder.mjs';

const folder = mkdtempSync(join(tmpdir(), 'release-folder-'));
afterAll(() => rmSync(folder, { recursive: true }));

test('the folder of a release has the files of the last build, and a checksum for each', () => {
  const [draft, target] = [join(folder, 'draft'), join(folder, 'binary')];
  for (const name of ['exec-server-linux-arm64', 'exec-server-linux-x64']) {
    mkdirSync(draft);
    writeFileSync(join(draft, name), name);
    replaceReleaseFolder(draft, target);
  }
  expect(readdirSync(folder)).toEqual(['binary']);
  expect(readdirSync(target).sort()).toEqual(['SHA256SUMS', 'exec-server-linux-x64']);
  const verified = execFileSync('sha256sum', ['--check', 'SHA256SUMS'], { cwd: target, encoding: 'utf8' });
  expect(verified).toBe('exec-server-linux-x64: OK\n');
});
