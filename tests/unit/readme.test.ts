import { spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { docBlocks } from '../../scripts/doc-blocks.mjs';
import { readPage as read } from '../../scripts/repository-links.mjs';

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const scratch = mkdtempSync(join(root, 'node_modules', '.docs-'));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

const PAGES = [
  'README.md',
  ...readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' }).map((name) => `docs/${name}`),
].filter((page) => page.endsWith('.md'));

// What is written to the folder imports this checkout under the package's name.
beforeAll(() => {
  mkdirSync(join(scratch, 'node_modules'), { recursive: true });
  symlinkSync(root, join(scratch, 'node_modules', 'exec-server'));
});

test('every TypeScript example compiles under strict rules', () => {
  const examples = PAGES.flatMap((page) =>
    docBlocks(page)
      .filter(({ language }) => language === 'ts')
      .map(({ text, line }) => ({ name: `${page.replaceAll('/', '-')}-${line}.mts`, text })),
  );
  expect(examples.length).toBeGreaterThan(10);
  for (const { name, text } of examples) writeFileSync(join(scratch, name), text);
  const compilerOptions = {
    noEmit: true,
    strict: true,
    skipLibCheck: true,
    module: 'nodenext',
    target: 'es2022',
    types: ['node'],
  };
  writeFileSync(join(scratch, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*.mts'] }));
  const compiler = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
  const { stdout } = spawnSync(process.execPath, [compiler, '-p', scratch], { encoding: 'utf8' });
  expect(stdout).toBe('');
});

describe('links of the documentation', () => {
  const pages = [
    ...PAGES,
    ...['ARCHITECTURE.md', 'CONTRIBUTING.md', 'bench/README.md', 'tests/conformance/README.md'],
  ];
  const links = pages.flatMap((page) =>
    [...read(page).matchAll(/\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)/g)].map(([, target, anchor]) => ({
      page,
      target: target === '' ? page : join(dirname(page), target!),
      anchor,
    })),
  );

  test('lead to files that exist', () => {
    const missing = links.filter(({ target }) => !existsSync(join(root, target)));
    expect(missing).toEqual([]);
  });

  test('lead to headings that exist', () => {
    const missing = links.filter(
      ({ target, anchor }) => anchor !== undefined && !anchorsOf(read(target)).includes(anchor),
    );
    expect(missing).toEqual([]);
  });
});

/** The anchors that GitHub gives the headings of a page. */
function anchorsOf(text: string): string[] {
  return [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading]) =>
    heading!
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(' ', '-'),
  );
}

test('the npm scripts that pages name exist', () => {
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const known = [...Object.keys(scripts), 'ci', 'pack', 'install', 'run'];
  for (const page of ['README.md', 'CONTRIBUTING.md', 'docs/getting-started.md'])
    for (const [, run, name] of readFileSync(join(root, page), 'utf8').matchAll(
      /(?:`|\$ )npm (run )?([a-z]+)/g,
    ))
      expect(run === undefined ? known : Object.keys(scripts), page).toContain(name);
});

test('README installs with commands that npm run test:install follows', () => {
  const lines = readFileSync(join(root, 'README.md'), 'utf8').split('\n');
  const begin = lines.indexOf('## Install');
  const end = lines.findIndex((line, index) => index > begin && line.startsWith('## '));
  const blocks = docBlocks('README.md').filter(({ line }) => line > begin && line < end);
  expect(blocks.map(({ flags }) => flags.find((flag) => flag.startsWith('install=')))).toEqual([
    'install=npm',
    'install=npx',
    'install=executable',
    'install=sandbox',
  ]);
  const script = readFileSync(join(root, 'scripts/test-install.mjs'), 'utf8');
  for (const way of ['npm', 'npx', 'executable']) expect(script).toContain(`follow('${way}'`);
  expect(script).toContain("followWithExecutable('sandbox'");
});

describe('docs/decisions', () => {
  const read = (page: string) => readFileSync(join(root, 'docs/decisions', page), 'utf8');
  const pages = readdirSync(join(root, 'docs/decisions')).filter((page) => page !== 'README.md');

  test('every page is in the index and has context, decision and consequences', () => {
    for (const page of pages) {
      expect(read('README.md')).toContain(`](${page})`);
      const headings = [...read(page).matchAll(/^## (.*)$/gm)].map(([, heading]) => heading);
      expect([page, ...headings]).toEqual([page, 'Context', 'Decision', 'Consequences']);
    }
  });

  test('every deviation of the conformance cases names a page that exists', () => {
    const deviations = JSON.parse(readFileSync(join(root, 'tests/conformance/deviations.json'), 'utf8'));
    for (const { decision } of Object.values<{ decision: string }>(deviations))
      expect(existsSync(join(root, decision)), decision).toBe(true);
  });

  test('the npm package leaves the pages out', () => {
    const { files } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
    expect(files).toContain('!docs/decisions');
  });
});

describe('docs/security.md', () => {
  test('names tests that exist', () => {
    const text = readFileSync(join(root, 'docs/security.md'), 'utf8');
    const names = [...text.matchAll(/\b(?:unit|e2e|interop|fuzz|soak)\/[\w/-]+/g)].map(([name]) => name);
    expect(names.length).toBeGreaterThan(50);
    const tests = readdirSync(join(root, 'tests'), { recursive: true, encoding: 'utf8' });
    const missing = names.filter((name) => {
      const [path, isPrefix] = [join(root, 'tests', name), name.endsWith('-')];
      return isPrefix
        ? !tests.some((file) => file.startsWith(name))
        : !existsSync(path) && !existsSync(`${path}.test.ts`);
    });
    expect(missing).toEqual([]);
  });
});

describe('docs/troubleshooting.md', () => {
  /** Parts that come from other programs or are filled in. */
  const FILLED_IN =
    /(?<=HTTP )\d+$|connect ECONNREFUSED|(?<=^unknown )(?:setting|variable)|(?<=invalid )websocket/g;
  /** Messages of other programs, and names of codes. */
  const FOREIGN =
    /^(?:EXDEV|Read-only|self-signed|unable to verify|… loopback|… uid map|… No permissions|… mount proc|Cannot find module)/;

  test('shows messages that the sources contain', () => {
    const text = readFileSync(join(root, 'docs/troubleshooting.md'), 'utf8');
    const messages = [...text.matchAll(/^\| (.*?) \|/gm)]
      .flatMap(([, cell]) => [...cell!.matchAll(/`([^`]+)`/g)].map(([, message]) => message!))
      .filter(
        (message) => message.includes(' ') && !message.startsWith('exec-server ') && !FOREIGN.test(message),
      );
    expect(messages.length).toBeGreaterThan(60);
    const sources = ['src', 'scripts'].map((folder) => sourceTexts(join(root, folder))).join('');
    const missing = messages.filter((message) =>
      message
        .replace(FILLED_IN, '…')
        .split('…')
        .some(
          (part) =>
            !sources.includes(
              part
                .trim()
                .replace(/^[:;,(]+|[:;,(]+$/g, '')
                .trim(),
            ),
        ),
    );
    expect(missing).toEqual([]);
  });
});

/** The sources below a folder, with strings that continue on the next line joined, and without backticks. */
function sourceTexts(folder: string): string {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.(?:ts|mjs)$/.test(name))
    .map((name) => readFileSync(join(folder, name), 'utf8'))
    .join('\n')
    .replace(/['`]\s*\+\s*['`]/g, '')
    .replaceAll('\\`', '')
    .replaceAll('`', '');
}

describe('ARCHITECTURE.md', () => {
  test('names files that exist', () => {
    const text = readFileSync(join(root, 'ARCHITECTURE.md'), 'utf8');
    for (const [, path] of text.matchAll(/`((?:src|scripts|tests)\/[\w./-]+\.(?:ts|mjs))`/g))
      readFileSync(join(root, path!));
  });
});
