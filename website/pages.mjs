// The pages of the site: docs/, and the pages of the repository that they link to.
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { readPage } from '../scripts/repository-links.mjs';

/** Files outside of docs/ and their places on the site. */
const MOVED = new Map([
  ['CHANGELOG.md', 'project/CHANGELOG.md'],
  ['SECURITY.md', 'project/SECURITY.md'],
  ['ARCHITECTURE.md', 'project/ARCHITECTURE.md'],
  ['CONTRIBUTING.md', 'project/CONTRIBUTING.md'],
  ['bench/README.md', 'project/bench.md'],
  ['bench/results/latest.md', 'project/bench-results.md'],
  ['tests/conformance/README.md', 'project/conformance.md'],
]);

/** Folders whose files are downloads, and their places on the site. */
const DOWNLOADS = ['schema/', 'examples/', 'deploy/', 'skills/'];

/** Copies the pages of the repository `root` into the folder `to` and returns their names there. A link that leads nowhere throws. */
export function copyPages(root, to) {
  const docs = readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' });
  const pages = [
    ...docs.filter((name) => name.endsWith('.md')).map((name) => `docs/${name}`),
    ...MOVED.keys(),
  ];
  const names = pages.map((page) => placeOf(page));
  for (const page of pages) {
    const target = join(to, placeOf(page));
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(target, moveLinks(readPage(page, root), page, root));
  }
  cpSync(join(root, 'docs/images'), join(to, 'images'), { recursive: true });
  for (const folder of DOWNLOADS)
    if (existsSync(join(root, folder)))
      cpSync(join(root, folder), join(to, 'public', folder), { recursive: true });
  return names;
}

/** Where a file of the repository is on the site; null if it is not there. */
function placeOf(file) {
  if (file === 'docs/README.md' || file === 'README.md') return 'index.md';
  if (file.startsWith('docs/')) return file.slice('docs/'.length);
  return MOVED.get(file) ?? null;
}

/** The text of a page with links that fit its place on the site. Code is left as it is. */
function moveLinks(text, page, root) {
  let inCode = false;
  const lines = withoutComments(text)
    .split('\n')
    .map((line) => {
      if (/^\s*```/.test(line)) inCode = !inCode;
      if (inCode) return line;
      return line.replace(/\]\((?!https?:|#)([^)#\s]+)(#[^)\s]+)?\)/g, (_, target, anchor = '') => {
        return `](${placeOfLink(target, page, root)}${anchor})`;
      });
    });
  return lines.join('\n');
}

function placeOfLink(target, page, root) {
  const file = posix.normalize(posix.join(posix.dirname(page), target));
  if (!existsSync(join(root, file))) throw new Error(`${page}: the link to ${target} leads nowhere`);
  if (DOWNLOADS.some((folder) => file.startsWith(folder) && file !== folder)) return `/${file}`;
  const place = placeOf(file);
  if (place === null)
    throw new Error(`${page}: ${file} is not on the site; add it to MOVED in website/pages.mjs`);
  const relative = posix.relative(posix.dirname(placeOf(page)), place);
  return relative.startsWith('.') ? relative : `./${relative}`;
}

function withoutComments(text) {
  return text.replace(/^<!--.*?-->\n/gms, '');
}

/** The side bar: one group for each heading of docs/README.md that has links. */
export function sidebarOf(root, apiPages) {
  const groups = [];
  for (const line of readPage('docs/README.md', root).split('\n')) {
    const heading = /^##+ (.*)$/.exec(line);
    if (heading) groups.push({ text: heading[1], collapsed: false, items: [] });
    for (const [, text, target] of line.matchAll(/\[([^\]]+)\]\((?!https?:)([^)\s]+)\)/g))
      groups.at(-1)?.items.push({ text, link: linkTo(target, root) });
  }
  groups.push({ text: 'Library', collapsed: true, items: apiPages });
  return groups.filter(({ items }) => items.length > 0);
}

/** The path on the site of a link of docs/README.md. */
function linkTo(target, root) {
  const [file, anchor] = target.split('#');
  const place = posix.normalize(placeOfLink(file, 'docs/README.md', root));
  return `/${place.replace(/\.md$/, '')}${anchor === undefined ? '' : `#${anchor}`}`;
}

/**
 * The index for language models (llmstxt.org): each page with its title and its first sentence, and the reference of the library. Links are relative, because the site may be
 * below a path (DOCS_BASE).
 */
export function llmsText(folder, names, summary) {
  const lines = names.map((name) => {
    const text = readFileSync(join(folder, name), 'utf8');
    const sentence = firstSentence(text);
    return `- [${titleOf(text, name)}](${name})${sentence && `: ${sentence}`}`;
  });
  const library = '- [Library reference](api/index.md): Every export of the package, by entry.';
  return `# exec-server\n\n> ${summary}\n\n## Pages\n\n${lines.join('\n')}\n\n## Library\n\n${library}\n`;
}

function titleOf(text, name) {
  return /^# (.*)$/m.exec(text)?.[1] ?? name;
}

function firstSentence(text) {
  const paragraph = text.split(/\n\s*\n/).find((part) => /^[\p{L}`*[]/u.test(part)) ?? '';
  const plain = paragraph.replace(/\s+/g, ' ').replace(/\[([^\]]+)\]\([^)]*\)/g, '$1');
  return /^.*?[.:](?=\s|$)/.exec(plain)?.[0] ?? plain;
}
