import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { copyPages, llmsText, sidebarOf } from '../../website/pages.mjs';

const root = fileURLToPath(new URL('../..', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'exec-server-website-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

let names: string[];
beforeAll(() => {
  names = copyPages(root, folder);
});

test('every page of docs is on the site, and all links lead to pages or downloads of the site', () => {
  const pages = readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' });
  const expected = pages.filter((name) => name.endsWith('.md') && name !== 'README.md');
  expect(names).toEqual(expect.arrayContaining([...expected, 'index.md', 'project/CHANGELOG.md']));
});

test('the side bar has every guide', () => {
  const links = sidebarOf(root, []).flatMap(({ items }) => items.map(({ link }) => link));
  const guides = readdirSync(join(root, 'docs/guides')).map((name) => `/guides/${name.replace('.md', '')}`);
  expect(links).toEqual(expect.arrayContaining(guides));
});

test('llms.txt has every page, with a sentence about each guide', () => {
  const lines = llmsText(folder, names, 'A server.').split('\n');
  expect(lines[2]).toBe('> A server.');
  for (const name of names) {
    const line = lines.find((candidate) => candidate.includes(`](/${name})`));
    expect(line).toMatch(name.startsWith('guides/') ? /^- \[.+\]\(.+\): .+/ : /^- \[.+\]/);
  }
});
