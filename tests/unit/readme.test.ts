import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, test } from 'vitest';

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const scratch = mkdtempSync(join(root, 'node_modules', '.docs-'));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

/** The TypeScript blocks of a page, as JavaScript that imports this checkout under the package's name. */
function snippets(page: string): string[] {
  const text = readFileSync(join(root, page), 'utf8');
  return [...text.matchAll(/```ts\n([\s\S]*?)```/g)].map((match) => match[1]!);
}

function installSelf(): void {
  mkdirSync(join(scratch, 'node_modules'), { recursive: true });
  symlinkSync(root, join(scratch, 'node_modules', 'exec-server'));
}

describe('README.md', () => {
  test('the library example prints what the text says', () => {
    installSelf();
    const [example] = snippets('README.md');
    writeFileSync(join(scratch, 'example.mjs'), example!);
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
    for (const page of ['README.md', 'ARCHITECTURE.md', 'docs/decisions/README.md']) {
      const text = readFileSync(join(root, page), 'utf8');
      for (const [, target] of text.matchAll(/\]\(([^)#]+)\)/g))
        readFileSync(join(root, dirname(page), target!));
    }
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

describe('ARCHITECTURE.md', () => {
  test('names files that exist', () => {
    const text = readFileSync(join(root, 'ARCHITECTURE.md'), 'utf8');
    for (const [, path] of text.matchAll(/`((?:src|scripts|tests)\/[\w./-]+\.(?:ts|mjs))`/g))
      readFileSync(join(root, path!));
  });
});
