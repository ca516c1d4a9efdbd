import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { docBlocks, runDocPage } from '../support/doc-page.ts';

const docs = fileURLToPath(new URL('../../docs', import.meta.url));
const PAGES = [
  'README.md',
  ...readdirSync(docs, { recursive: true, encoding: 'utf8' }).map((name) => `docs/${name}`),
]
  .filter((page) => page.endsWith('.md') && !page.startsWith('docs/decisions/'))
  .filter((page) => docBlocks(page).some(({ language }) => ['ts', 'js', 'console'].includes(language)));

describe('the commands and programs of', () => {
  test.each(PAGES)('%s run and print what the page shows', async (page) => {
    await runDocPage(page);
  });

  test('at least one page', () => {
    expect(PAGES).toContain('README.md');
  });
});
