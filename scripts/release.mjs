// Releases the package.
//
//   node scripts/release.mjs prepare VERSION [DATE]   sets the version, and turns "Unreleased" of the changelog into its section
//   node scripts/release.mjs check                    checks that the checkout is a release: clean, tagged, in the changelog
//   node scripts/release.mjs publish [--dry-run]      checks, builds and publishes with provenance, which needs a CI job with an OIDC token
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { changelogSections } from './changelog.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const [command, ...args] = process.argv.slice(2);
try {
  if (command === 'prepare' && args.length >= 1)
    prepare(args[0], args[1] ?? new Date().toISOString().slice(0, 10));
  else if (command === 'check' && args.length === 0) check();
  else if (command === 'publish' && args.every((arg) => arg === '--dry-run')) publish(args);
  else throw new Error('expected: prepare VERSION [DATE], check, or publish [--dry-run]');
} catch (error) {
  process.stderr.write(`release: ${error.message}\n`);
  process.exitCode = 1;
}

function prepare(version, date) {
  if (!/^\d+\.\d+\.\d+(?:-[\w.]+)?$/.test(version))
    throw new Error(`${version} is not a version such as 1.2.3`);
  const changelog = read('CHANGELOG.md');
  const sections = changelogSections(changelog);
  if (sections.has(version)) throw new Error(`CHANGELOG.md already has a section for ${version}`);
  if (!sections.get('Unreleased')) throw new Error('the section [Unreleased] of CHANGELOG.md is empty');
  run('npm', 'version', version, '--no-git-tag-version');
  writeFileSync(
    join(root, 'CHANGELOG.md'),
    changelog.replace('## [Unreleased]', `## [Unreleased]\n\n## ${version} - ${date}`),
  );
  run('npm', 'run', '-s', 'generate');
  process.stdout.write(`Now: npm test, git commit -a -m 'Release ${version}', git tag v${version}\n`);
}

function check() {
  const { version, repository } = JSON.parse(read('package.json'));
  const problems = [];
  if (git('status', '--porcelain') !== '') problems.push('the checkout has changes that are not committed');
  if (!git('tag', '--points-at', 'HEAD').split('\n').includes(`v${version}`)) {
    problems.push(`the commit has no tag v${version}: git tag v${version}`);
  }
  if (!changelogSections(read('CHANGELOG.md')).get(version)) {
    problems.push(`CHANGELOG.md has no section for ${version}: node scripts/release.mjs prepare ${version}`);
  }
  // npm refuses a provenance statement of another repository.
  const origin = git('remote').split('\n').includes('origin') ? git('remote', 'get-url', 'origin') : null;
  if (origin !== null && repositoryName(origin) !== repositoryName(repository.url)) {
    problems.push(`repository in package.json is ${repository.url}, and origin is ${origin}`);
  }
  if (problems.length > 0) throw new Error(problems.join('\nrelease: '));
  run('npm', 'run', '-s', 'check');
}

function publish(flags) {
  check();
  run(process.execPath, 'scripts/prepare.mjs', '--clean');
  // Users of `latest` get no pre-release; npm refuses to publish one without a tag.
  const { version } = JSON.parse(read('package.json'));
  const tag = version.includes('-') ? 'next' : 'latest';
  run('npm', 'publish', '--provenance', '--access', 'public', '--tag', tag, '--ignore-scripts', ...flags);
}

/** `owner/name`, from any form of a URL. */
function repositoryName(url) {
  return /([^/:]+\/[^/]+?)(?:\.git)?\/?$/.exec(url)?.[1];
}

function read(name) {
  return readFileSync(join(root, name), 'utf8');
}

function git(...args) {
  return execFileSync('git', args, { cwd: root, encoding: 'utf8' }).trim();
}

function run(program, ...args) {
  execFileSync(program, args, { cwd: root, stdio: ['ignore', 2, 2] });
}
