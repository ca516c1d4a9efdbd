import { execFileSync, spawnSync } from 'node:child_process';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';

const root = join(import.meta.dirname, '../../..');

/** A repository with a package of version 1.0.0 and the release script. */
let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'release-'));
  mkdirSync(join(folder, 'scripts'));
  for (const name of ['release.mjs', 'changelog.mjs']) {
    cpSync(join(root, 'scripts', name), join(folder, 'scripts', name));
  }
  const repository = { url: 'git+https://example.com/owner/name.git' };
  const scripts = { check: 'echo checked' };
  write('package.json', JSON.stringify({ name: 'x', version: '1.0.0', repository, scripts }));
  write('CHANGELOG.md', '# Changelog\n\n## [Unreleased]\n\n## 1.0.0\n\n### Added\n\n- All.\n');
  git('init', '--quiet');
  commit();
});
afterEach(() => rmSync(folder, { recursive: true }));

const write = (name: string, text: string) => writeFileSync(join(folder, name), text);
const git = (...args: string[]) => execFileSync('git', args, { cwd: folder });

function commit() {
  git('add', '.');
  git('-c', 'user.name=x', '-c', 'user.email=x@example.com', 'commit', '--quiet', '-m', 'x');
}

function release(...args: string[]) {
  const { status, stderr } = spawnSync(process.execPath, [join(folder, 'scripts/release.mjs'), ...args], {
    cwd: folder,
    encoding: 'utf8',
    env: { ...process.env, PATH: `${join(folder, '.git/bin')}:${process.env.PATH}` },
  });
  return { status, stderr };
}

test('accepts a clean checkout whose commit has the tag of its version', () => {
  expect(release('check').stderr).toContain('the commit has no tag v1.0.0');
  git('tag', 'v1.0.0');
  git('remote', 'add', 'origin', 'git@example.com:owner/name.git');
  expect(release('check')).toEqual({ status: 0, stderr: expect.stringContaining('checked') });
});

test('refuses changes, a version without a section, and another repository, all at once', () => {
  git('remote', 'add', 'origin', 'https://example.com/fork/name');
  write('CHANGELOG.md', '# Changelog\n\n## [Unreleased]\n');
  const { status, stderr } = release('publish', '--dry-run');
  expect(status).toBe(1);
  for (const part of ['not committed', 'no tag', 'no section for 1.0.0', 'fork/name']) {
    expect(stderr).toContain(part);
  }
});

test('prepares no release without changes, of a version that exists, or of no version', () => {
  const before = readFileSync(join(folder, 'CHANGELOG.md'), 'utf8');
  expect(release('prepare', '1.1.0').stderr).toContain('[Unreleased] of CHANGELOG.md is empty');
  expect(release('prepare', '1.0.0').stderr).toContain('already has a section');
  expect(release('prepare', 'next').stderr).toContain('is not a version');
  expect(readFileSync(join(folder, 'CHANGELOG.md'), 'utf8')).toBe(before);
});

/** Creates a folder with links to all entries of another but one. */
function linkEntries(from: string, to: string, except: string): void {
  mkdirSync(to);
  for (const name of readdirSync(from)) if (name !== except) symlinkSync(join(from, name), join(to, name));
}

test('prepares a release: its version in every file that has one, and its section in the changelog', () => {
  const clone = join(folder, 'clone');
  execFileSync('git', ['clone', '--quiet', '--shared', root, clone]);
  const changes = execFileSync('git', ['diff', '--binary', 'HEAD'], { cwd: root });
  if (changes.length > 0) execFileSync('git', ['apply'], { cwd: clone, input: changes });
  // The generated files need the build, of which only one module has the version.
  linkEntries(join(root, 'dist'), join(clone, 'dist'), 'observability');
  linkEntries(join(root, 'dist/observability'), join(clone, 'dist/observability'), 'version.js');
  symlinkSync(join(root, 'node_modules'), join(clone, 'node_modules'));
  const edit = (name: string, change: (text: string) => string) =>
    writeFileSync(join(clone, name), change(readFileSync(join(clone, name), 'utf8')));
  const compiled =
    'esbuild src/observability/version.ts --outfile=dist/observability/version.js --allow-overwrite';
  edit('package.json', (text) =>
    text.replaceAll(
      'node scripts/prepare.mjs && node scripts/generate-',
      `${compiled} && node scripts/generate-`,
    ),
  );
  edit('CHANGELOG.md', (text) =>
    text.replace(/(?<=## \[Unreleased\]\n)[\s\S]*?(?=\n## )/, '\n### Fixed\n\n- A bug.\n'),
  );
  const inClone = (program: string, ...args: string[]) =>
    execFileSync(program, args, { cwd: clone, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
  inClone(
    'git',
    '-c',
    'user.name=x',
    '-c',
    'user.email=x@example.com',
    'commit',
    '--quiet',
    '--all',
    '-m',
    'x',
  );

  const printed = inClone(process.execPath, 'scripts/release.mjs', 'prepare', '999.1.0', '2026-01-02');
  expect(printed).toContain("git commit -a -m 'Release 999.1.0', git tag v999.1.0");
  const changed = inClone('git', 'diff', '--name-only').trim().split('\n');
  expect(changed).toEqual([
    'CHANGELOG.md',
    'deploy/helm/exec-server/Chart.yaml',
    'docs/guides/ci.md',
    'man/exec-server.1',
    'package-lock.json',
    'package.json',
    'src/observability/version.ts',
  ]);
  for (const name of changed) expect(readFileSync(join(clone, name), 'utf8'), name).toContain('999.1.0');
  expect(readFileSync(join(clone, 'CHANGELOG.md'), 'utf8')).toContain(
    '## [Unreleased]\n\n## 999.1.0 - 2026-01-02\n\n### Fixed\n\n- A bug.\n\n## ',
  );
  for (const script of ['changelog.mjs', 'generate-version.mjs'])
    inClone(process.execPath, `scripts/${script}`, '--check');
});

test.each([
  ['1.1.0', 'latest'],
  ['1.1.0-rc.1', 'next'],
])('publishes %s with the tag %s', (version, tag) => {
  // Stands in for npm, which would publish: prints its arguments.
  mkdirSync(join(folder, '.git/bin'));
  writeFileSync(join(folder, '.git/bin/npm'), '#!/bin/sh\necho "npm $*"\n', { mode: 0o755 });
  write('scripts/prepare.mjs', '');
  write('package.json', JSON.stringify({ version, repository: { url: 'x' } }));
  write('CHANGELOG.md', `# Changelog\n\n## [Unreleased]\n\n## ${version}\n\n### Added\n\n- All.\n`);
  commit();
  git('tag', `v${version}`);
  const { status, stderr } = release('publish');
  expect(status).toBe(0);
  expect(stderr).toContain(`npm publish --provenance --access public --tag ${tag} --ignore-scripts\n`);
});
