// Reads CHANGELOG.md, which follows https://keepachangelog.com. Run as a program, it checks the format, and that changes of src/ since the
// newest release are in the section "Unreleased".
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const PARTS = ['Added', 'Changed', 'Deprecated', 'Removed', 'Fixed', 'Security'];

/** The sections by name ("Unreleased" or a version), newest first, each with its text. */
export function changelogSections(text) {
  const [, ...sections] = text.split(/^## /m);
  return new Map(
    sections.map((section) => {
      const [heading, ...lines] = section.split('\n');
      return [/^\[?([^\]\s]+)/.exec(heading)?.[1] ?? heading, lines.join('\n').trim()];
    }),
  );
}

/** What is wrong with a changelog for a package of this version. `hasChanges`: whether sources changed since the newest release. */
export function changelogErrors(text, version, hasChanges) {
  const sections = changelogSections(text);
  const names = [...sections.keys()];
  const errors = [];
  if (names[0] !== 'Unreleased') errors.push('the first section must be [Unreleased]');
  if (!sections.get(version)) errors.push(`the section of version ${version} is missing or empty`);
  if (names.length > 1 && names[1] !== version) {
    errors.push(`the newest version is ${names[1]}, and package.json has ${version}`);
  }
  if (hasChanges && !sections.get('Unreleased')) {
    errors.push('src/ has changed since the newest release, and the section [Unreleased] is empty');
  }
  for (const [, part] of text.matchAll(/^### (.*)$/gm)) {
    if (!PARTS.includes(part)) errors.push(`"### ${part}" is none of ${PARTS.join(', ')}`);
  }
  return errors;
}

/** Whether a file of src/ differs from the newest tag `v…`. False in a checkout without tags or without git. */
function hasSourceChanges() {
  try {
    const git = (...args) =>
      execFileSync('git', args, { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
    const tag = git('describe', '--tags', '--abbrev=0', '--match', 'v*').trim();
    return git('diff', '--name-only', tag, '--', 'src').trim() !== '';
  } catch {
    return false;
  }
}

if (resolve(process.argv[1] ?? '') === fileURLToPath(import.meta.url)) {
  const text = readFileSync(join(root, 'CHANGELOG.md'), 'utf8');
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const errors = changelogErrors(text, version, hasSourceChanges());
  for (const error of errors) process.stderr.write(`CHANGELOG.md: ${error}\n`);
  if (errors.length > 0) process.exitCode = 1;
}
