// What a built site must have besides its links.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * What a site lacks, one line for each: pages, their entries in the search index, files that llms.txt names, and the generated parts of the
 * reference. `pages` are names such as `guides/relay.md`; llms.txt need not have `apiPages`.
 */
export function missingContents(folder, { pages, apiPages, commands, methods }) {
  const read = (name) => (existsSync(join(folder, name)) ? readFileSync(join(folder, name), 'utf8') : '');
  const all = [...pages, ...apiPages];
  const found = searchedPages(folder);
  const index = read('llms.txt');
  const linked = Array.from(index.matchAll(/\]\(([^)]+)\)/g), ([, link]) => link);
  const lacks = (name, words) =>
    words.filter((word) => !read(name).includes(word)).map((word) => `${name} lacks ${word}`);
  return [
    ...all
      .filter((page) => read(page.replace(/\.md$/, '.html')) === '')
      .map((page) => `there is no page ${page}`),
    ...all.filter((page) => !found.has(pathOf(page))).map((page) => `the search does not find ${page}`),
    ...pages.filter((page) => !linked.includes(page)).map((page) => `llms.txt lacks ${page}`),
    ...linked.filter((link) => read(link) === '').map((link) => `llms.txt: there is no ${link}`),
    ...lacks(
      'cli.html',
      commands.map((name) => `id="${name}"`),
    ),
    ...lacks('protocol.html', methods),
  ];
}

/** The paths of the pages in the search index. */
function searchedPages(folder) {
  const chunks = join(folder, 'assets/chunks');
  const name = existsSync(chunks) && readdirSync(chunks).find((file) => file.startsWith('@localSearchIndex'));
  if (!name) return new Set();
  const [, ids] = /"documentIds":(\{.*?\})/.exec(readFileSync(join(chunks, name), 'utf8')) ?? [null, '{}'];
  return new Set(Object.values(JSON.parse(ids)).map((id) => id.replace(/#.*/, '')));
}

/** The path of a page on a site with clean URLs. */
function pathOf(page) {
  return `/${page.replace(/\.md$/, '').replace(/(^|\/)index$/, '$1')}`;
}
