import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { copyPages, llmsText, sidebarOf } from '../../website/pages.mjs';
import { missingContents } from '../../website/site-contents.mjs';
import { brokenLinks, correctAnchors } from '../../website/site-links.mjs';

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

test('the side bar has every guide, and all its links lead to pages of the site', () => {
  const links = sidebarOf(root, []).flatMap(({ items }) => items.map(({ link }) => link));
  const guides = readdirSync(join(root, 'docs/guides')).map((name) => `/guides/${name.replace('.md', '')}`);
  expect(links).toEqual(expect.arrayContaining(guides));
  const places = names.map((name) => `/${name.replace('.md', '')}`);
  expect(links.filter((link) => !places.includes(link.replace(/#.*/, '')))).toEqual([]);
});

test('links that lead to no page and to no heading of the site are found', () => {
  const site = join(folder, 'site');
  mkdirSync(join(site, 'guides'), { recursive: true });
  const good = [
    '../page',
    '/page#here',
    '#top',
    '/guides/',
    'https://example.com/x',
    '/image.png?x=1&amp;y=2',
  ];
  const links = [...good, '/absent', '../page#gone'].map((link) => `<a class="x" href="${link}">x</a>`);
  writeFileSync(join(site, 'guides/index.html'), `<h1 id="top">x</h1>${links.join('')}`);
  writeFileSync(join(site, 'page.html'), '<h2 id="here">x</h2>');
  writeFileSync(join(site, 'image.png'), '');
  expect(brokenLinks(site)).toEqual(['guides/index.html: /absent', 'guides/index.html: ../page#gone']);
});

test('links of a site below a path lead to its pages', () => {
  const site = join(folder, 'site-below');
  mkdirSync(site);
  writeFileSync(join(site, 'page.html'), '<a href="/base/page">x</a><a href="/base/absent">x</a>');
  expect(brokenLinks(site, '/base/')).toEqual(['page.html: /base/absent']);
});

test('numbers of anchors that no heading has are corrected', () => {
  const api = join(folder, 'api');
  mkdirSync(api);
  const links =
    '[a](other.md#kind-1) [b](other.md#run-1) [c](other.md#run-2) [d](#here-3) [e](other.md#absent-1)';
  writeFileSync(join(api, 'page.md'), `# Here\n\n${links}\n`);
  writeFileSync(join(api, 'other.md'), '# Kind\n\n## run()\n\n## run()\n');
  correctAnchors(api);
  expect(readFileSync(join(api, 'page.md'), 'utf8').split('\n')[2]).toBe(
    '[a](other.md#kind) [b](other.md#run-1) [c](other.md#run-1) [d](#here) [e](other.md#absent-1)',
  );
});

test('llms.txt of a site below a path has every page, with a sentence about each guide', () => {
  const lines = llmsText(folder, names, 'A server.').split('\n');
  expect(lines[2]).toBe('> A server.');
  const site = 'https://example.com/base/';
  for (const name of [...names, 'api/index.md']) {
    const line = lines.find((candidate) => {
      const [, link] = /\]\((.*?)\)/.exec(candidate) ?? [];
      return link !== undefined && new URL(link, `${site}llms.txt`).href === `${site}${name}`;
    });
    expect(line).toMatch(name.startsWith('guides/') ? /^- \[.+\]\(.+\): .+/ : /^- \[.+\]/);
  }
});

test('pages that are missing, or that search and llms.txt lack, are found', () => {
  const site = join(folder, 'site-contents');
  mkdirSync(join(site, 'assets/chunks'), { recursive: true });
  const write = (name: string, text: string) => writeFileSync(join(site, name), text);
  for (const name of ['index', 'cli', 'protocol', 'page'])
    write(`${name}.html`, 'process/start <h3 id="run">');
  for (const name of ['index.md', 'page.md']) write(name, '# Title');
  write('llms.txt', '- [a](index.md)\n- [b](page.md)\n');
  write(
    'assets/chunks/@localSearchIndexroot.x.js',
    'const x = \'{"documentIds":{"0":"/#a","1":"/page#b"}}\'',
  );
  const contents = {
    pages: ['index.md', 'page.md'],
    apiPages: [],
    commands: ['run'],
    methods: ['process/start'],
  };
  expect(missingContents(site, contents)).toEqual([]);

  const more = { commands: ['run', 'ps'], methods: ['process/start', 'process/read'] };
  expect(missingContents(site, { ...contents, ...more, apiPages: ['api/index.md'] })).toEqual([
    'there is no page api/index.md',
    'the search does not find api/index.md',
    'cli.html lacks id="ps"',
    'protocol.html lacks process/read',
  ]);
  rmSync(join(site, 'assets'), { recursive: true });
  write('llms.txt', '- [a](index.md)\n- [b](absent.md)\n');
  expect(missingContents(site, contents)).toEqual([
    'the search does not find index.md',
    'the search does not find page.md',
    'llms.txt lacks page.md',
    'llms.txt: there is no absent.md',
  ]);
});
