import { execFileSync, spawnSync } from 'node:child_process';
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
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { transformSync } from 'esbuild';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const scratch = mkdtempSync(join(root, 'node_modules', '.docs-'));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

const PAGES = [
  'README.md',
  ...readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' }).map((name) => `docs/${name}`),
].filter((page) => page.endsWith('.md'));

/** The TypeScript blocks of a page. */
function snippets(page: string): string[] {
  const text = readFileSync(join(root, page), 'utf8');
  return [...text.matchAll(/```ts\n([\s\S]*?)```/g)].map((match) => match[1]!);
}

// What is written to the folder imports this checkout under the package's name.
beforeAll(() => {
  mkdirSync(join(scratch, 'node_modules'), { recursive: true });
  symlinkSync(root, join(scratch, 'node_modules', 'exec-server'));
});

test('every TypeScript example compiles under strict rules', () => {
  const examples = PAGES.flatMap((page) =>
    snippets(page).map((text, index) => ({ name: `${basename(page, '.md')}-${index}.mts`, text })),
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

describe('README.md', () => {
  test('the library example prints what the text says', () => {
    const [example] = snippets('README.md');
    writeFileSync(join(scratch, 'example.mjs'), transformSync(example!, { loader: 'ts' }).code);
    const output = execFileSync(process.execPath, [join(scratch, 'example.mjs')], { encoding: 'utf8' });
    expect(output).toBe('hello\n 3\n');
  });

  test('names commands that exist', () => {
    const { scripts, bin } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
    const text = readFileSync(join(root, 'README.md'), 'utf8');
    for (const [, name] of text.matchAll(/^ {4}npm (\w+)/gm)) expect(scripts).toHaveProperty(name!);
    for (const [, command] of text.matchAll(/^ {4}npx exec-server (\S+)/gm)) {
      const flags =
        command === '--listen'
          ? ['config', '--listen', 'ws://127.0.0.1:4000', '--detached-session-ttl', '2h']
          : [command!];
      execFileSync(process.execPath, [join(root, bin['exec-server']), ...flags], { stdio: 'pipe' });
    }
  });

  test('links to files that exist', () => {
    for (const page of [...PAGES, 'ARCHITECTURE.md', 'CONTRIBUTING.md']) {
      const text = readFileSync(join(root, page), 'utf8');
      for (const [, target] of text.matchAll(/\]\((?!https?:)([^)#]+)/g))
        readFileSync(join(root, dirname(page), target!));
    }
  });
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

describe('docs/testing.md', () => {
  test('the example is a passing test', async () => {
    const [example] = snippets('docs/testing.md');
    const body = example!.replace(/^import .*$/gm, '').replace(/^test\(/m, 'await run(');
    const { startServer } = await import('../../src/testing/index.ts');
    const run = async (_name: string, each: () => Promise<void>) => each();
    const AsyncFunction = Object.getPrototypeOf(run).constructor;
    await new AsyncFunction('startServer', 'expect', 'run', body)(startServer, expect, run);
    expect.assertions(1);
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

describe('ARCHITECTURE.md', () => {
  test('names files that exist', () => {
    const text = readFileSync(join(root, 'ARCHITECTURE.md'), 'utf8');
    for (const [, path] of text.matchAll(/`((?:src|scripts|tests)\/[\w./-]+\.(?:ts|mjs))`/g))
      readFileSync(join(root, path!));
  });
});
