// The links of the site: corrects those that TypeDoc writes, and finds those that lead nowhere.
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join, posix } from 'node:path';

/** The anchor of a heading as GitHub makes it, because the pages are read there too. */
export function anchorOf(heading) {
  return heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .replaceAll(' ', '-');
}

/**
 * Corrects links to headings in the Markdown pages of a folder. TypeDoc numbers a heading such as `kind-1` when it knows another declaration
 * of that name, also one that has no heading.
 */
export function correctAnchors(folder) {
  const pages = filesOf(folder, '.md');
  const texts = new Map(pages.map((page) => [page, readFileSync(join(folder, page), 'utf8')]));
  const counts = new Map([...texts].map(([page, text]) => [page, countAnchors(text)]));
  for (const [page, text] of texts) {
    const corrected = text.replace(/\]\(([^)#\s]*)#([^)\s]+?)-(\d+)\)/g, (link, target, anchor, number) => {
      const to = target === '' ? page : posix.join(posix.dirname(page), target);
      const count = counts.get(to)?.get(anchor) ?? 0;
      if (count === 0 || count > Number(number)) return link;
      return `](${target}#${anchor}${count === 1 ? '' : `-${count - 1}`})`;
    });
    if (corrected !== text) writeFileSync(join(folder, page), corrected);
  }
}

function countAnchors(text) {
  const counts = new Map();
  for (const [, heading] of text.matchAll(/^#+ (.*)$/gm)) {
    const anchor = anchorOf(heading);
    counts.set(anchor, (counts.get(anchor) ?? 0) + 1);
  }
  return counts;
}

/** The links between the HTML pages of a folder that lead to no file or to no element, each as `PAGE: LINK`. `base` is the path of the site. */
export function brokenLinks(folder, base = '/') {
  const pages = filesOf(folder, '.html');
  const texts = new Map(pages.map((page) => [page, readFileSync(join(folder, page), 'utf8')]));
  const ids = new Map(
    [...texts].map(([page, text]) => [
      page,
      new Set(Array.from(text.matchAll(/\sid="([^"]+)"/g), ([, id]) => id)),
    ]),
  );
  const leadsNowhere = (page, link) => {
    const { origin, pathname, hash } = new URL(link.replaceAll('&amp;', '&'), `http://site${base}${page}`);
    if (origin !== 'http://site') return false;
    const file = fileAt(folder, decodeURIComponent(pathname).slice(base.length));
    const anchor = decodeURIComponent(hash.slice(1));
    return file === undefined || (anchor !== '' && ids.get(file)?.has(anchor) === false);
  };
  return [...texts].flatMap(([page, text]) => {
    const links = new Set(Array.from(text.matchAll(/<a\s[^>]*?\bhref="([^"]+)"/g), ([, link]) => link));
    return [...links].filter((link) => leadsNowhere(page, link)).map((link) => `${page}: ${link}`);
  });
}

/** The file that a web server with clean URLs sends for a path, undefined if there is none. */
function fileAt(folder, path) {
  return [path, `${path}.html`, posix.join(path, 'index.html')].find((file) =>
    statSync(join(folder, file), { throwIfNoEntry: false })?.isFile(),
  );
}

function filesOf(folder, ending) {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith(ending));
}
