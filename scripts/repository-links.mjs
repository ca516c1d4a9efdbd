// Pages that the npm package contains have absolute links to pages that it leaves out.
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));

/** The page of the repository: `repository` in package.json. */
export function repositoryHome() {
  const { repository } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  return repository.url.replace(/^git\+|\.git$/g, '');
}

/** What absolute links to files of the repository begin with. */
export function repositoryUrl() {
  return `${repositoryHome()}/blob/main/`;
}

/** The text of a page of the repository in `folder`, with relative links to all files of the repository. */
export function readPage(page, folder = root) {
  const up = '../'.repeat(page.split('/').length - 1);
  return readFileSync(join(folder, page), 'utf8').replaceAll(`](${repositoryUrl()}`, `](${up}`);
}
