import { expect, test } from 'vitest';
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
