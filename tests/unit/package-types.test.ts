import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const require = createRequire(import.meta.url);
const manifest = require('../../package.json') as {
  readonly dependencies: Readonly<Record<string, string>>;
  readonly exports: Readonly<Record<string, object | string>>;
};

/** Returns every declaration file of the package that an entry imports, directly or not, with its text. */
function declarations(entries: readonly string[]): Map<string, string> {
  const found = new Map<string, string>();
  const pending = [...entries];
  for (let path = pending.pop(); path !== undefined; path = pending.pop()) {
    if (found.has(path)) continue;
    const text = readFileSync(path, 'utf8').replace(/\/\*[\s\S]*?\*\//g, '');
    found.set(path, text);
    for (const name of imports(text)) {
      if (name.startsWith('.')) pending.push(resolve(dirname(path), name.replace(/\.[jt]s$/, '.d.ts')));
    }
  }
  return found;
}

function imports(text: string): string[] {
  return [...text.matchAll(/(?:from|import\()\s*['"]([\w@.:/-]+)['"]/g)].map((match) => match[1]!);
}

function entries(pick: (path: string) => boolean): string[] {
  const paths = JSON.stringify(manifest.exports).match(/\.\/dist\/[\w/-]+\.d\.ts/g)!;
  return paths.filter(pick).map((path) => join(root, path));
}

test('the type declarations need only packages that this package depends on', () => {
  const names = [...declarations(entries(() => true)).values()].flatMap(imports);
  const packages = new Set(
    names.filter((name) => !/^(?:\.|node:)/.test(name)).map((name) => /^(?:@[^/]+\/)?[^/]+/.exec(name)![0]),
  );
  expect(packages.size).toBeGreaterThan(0);
  const untyped = [...packages].filter((name) => {
    const folder = join(root, 'node_modules', name);
    const { types, exports } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
    const hasOwn =
      types !== undefined ||
      existsSync(join(folder, 'index.d.ts')) ||
      /\.d\.[mc]?ts/.test(JSON.stringify(exports));
    return !(name in manifest.dependencies && hasOwn);
  });
  expect(untyped).toEqual([]);
});

test('the declarations of the browser and protocol entries need no Node types', () => {
  const portable = declarations(
    entries((path) => /\/(?:client\/browser|protocol\/index)\.d\.ts$/.test(path)),
  );
  expect(portable.size).toBeGreaterThan(10);
  const nodes = [...portable].filter(([, text]) => /\bBuffer\b|\bNodeJS\.|['"]node:/.test(text));
  expect(nodes.map(([path]) => path)).toEqual([]);
});
