import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { changelogErrors } from '../../../scripts/changelog.mjs';

const changelog = (unreleased: string) =>
  `# Changelog\n\n## [Unreleased]\n\n${unreleased}\n## 1.2.0 - 2026-01-02\n\n### Added\n\n- It exists.\n`;

test('accepts a changelog whose newest version is that of the package', () => {
  expect(changelogErrors(changelog(''), '1.2.0', false)).toEqual([]);
  expect(changelogErrors(changelog('### Fixed\n\n- A bug.\n'), '1.2.0', true)).toEqual([]);
});

test('reports changes that are not in the changelog', () => {
  expect(changelogErrors(changelog(''), '1.2.0', true)).toEqual([
    'src/ has changed since the newest release, and the section [Unreleased] is empty',
  ]);
});

test('reports a version without a section, and parts that do not exist', () => {
  expect(changelogErrors(changelog('### News\n'), '1.3.0', false)).toEqual([
    'the section of version 1.3.0 is missing or empty',
    'the newest version is 1.2.0, and package.json has 1.3.0',
    '"### News" is none of Added, Changed, Deprecated, Removed, Fixed, Security',
  ]);
});

test('run as a program, compares src/ with the newest tag of a version', () => {
  const folder = mkdtempSync(join(tmpdir(), 'changelog-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const write = (name: string, text: string) => writeFileSync(join(folder, name), text);
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=x', '-c', 'user.email=x@example.com', ...args], { cwd: folder });
  const commit = () => git('commit', '--quiet', '--all', '--allow-empty', '-m', 'x');
  const program = join(folder, 'scripts/changelog.mjs');
  const check = () => {
    const { status, stderr } = spawnSync(process.execPath, [program], { cwd: folder, encoding: 'utf8' });
    return { status, stderr };
  };
  const accepted = { status: 0, stderr: '' };
  const refused = { status: 1, stderr: expect.stringContaining('src/ has changed since the newest release') };

  for (const name of ['scripts', 'src']) mkdirSync(join(folder, name));
  cpSync(join(import.meta.dirname, '../../../scripts/changelog.mjs'), program);
  write('package.json', '{ "version": "1.2.0", "type": "module" }');
  write('CHANGELOG.md', changelog(''));
  write('src/program.ts', 'one');
  write('README.md', 'one');
  expect(check()).toEqual(accepted);
  git('init', '--quiet');
  git('add', '.');
  commit();
  // Without a tag there is no release to compare with.
  expect(check()).toEqual(accepted);
  git('tag', 'v1.1.0');
  write('src/program.ts', 'two');
  commit();
  expect(check()).toEqual(refused);
  git('tag', 'v1.2.0');
  git('tag', 'nightly');
  expect(check()).toEqual(accepted);
  write('README.md', 'two');
  expect(check()).toEqual(accepted);
  write('src/program.ts', 'three');
  expect(check()).toEqual(refused);
  commit();
  git('tag', 'nightly-2');
  expect(check()).toEqual(refused);
  write('CHANGELOG.md', changelog('### Fixed\n\n- A bug.\n'));
  expect(check()).toEqual(accepted);
});
