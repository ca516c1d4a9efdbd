import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { docBlocks } from '../../scripts/doc-blocks.mjs';
import { runDocPage } from '../support/doc-page.ts';

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

test('the test kit needs at most 10 lines to start a server and assert an event', () => {
  const page = 'docs/guides/test-kit.md';
  expect(PAGES).toContain(page);
  const [example] = docBlocks(page).filter(({ language }) => language === 'ts');
  expect(example!.flags).not.toContain('no-run');
  expect(example!.text).toMatch(/startServer\(.*closedProcess\(/s);
  expect(example!.text.trimEnd().split('\n').length).toBeLessThanOrEqual(10);
});

test.each(['share-a-terminal', 'pick-up-a-job', 'port-forwarding'])(
  'each program of the guide %s has less than 15 lines',
  (guide) => {
    const programs = docBlocks(`docs/guides/${guide}.md`).filter(({ language }) => language === 'ts');
    expect(programs.length).toBeGreaterThan(0);
    for (const { text } of programs) expect(text.trim().split('\n').length).toBeLessThan(15);
  },
);

test('all guides connect in the same way', () => {
  const guides = PAGES.filter((page) => page.startsWith('docs/guides/'));
  const long = guides.filter((page) => docBlocks(page).some(({ text }) => text.includes('ExecServerClient')));
  expect(long).toEqual([]);
});

test('the getting-started page has the 60 seconds of the README', () => {
  const commands = (page: string) => {
    const text = readFileSync(new URL(`../../${page}`, import.meta.url), 'utf8');
    const [, section] = /^## 60 seconds\n([\s\S]*?)(?=^## |^`exec-server console`)/m.exec(text)!;
    return section!.trim();
  };
  expect(commands('docs/getting-started.md')).toBe(commands('README.md'));
});

test('each first task of the getting-started page needs at most three lines after `connect`', () => {
  const page = 'docs/getting-started.md';
  const tasks = docBlocks(page)
    .filter(({ language }) => language === 'ts')
    .map(({ text }) => text.trim().split('\n'))
    .filter((lines) => lines.some((line) => line.startsWith('const client = await connect(')))
    .map((lines) => lines.slice(lines.findIndex((line) => line.startsWith('const client')) + 1));
  const short = tasks.filter((lines) => lines.length <= 3);
  expect(short.length).toBeGreaterThanOrEqual(7);
});
