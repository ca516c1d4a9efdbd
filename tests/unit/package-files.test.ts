import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { reachableDeclarations, reachableModules } from '../../scripts/package-modules.mjs';
import { repositoryUrl } from '../../scripts/repository-links.mjs';

const root = join(import.meta.dirname, '../..');
const read = (path: string) => readFileSync(join(root, path), 'utf8');
const manifest = JSON.parse(read('package.json')) as {
  readonly dependencies: Readonly<Record<string, string>>;
  readonly optionalDependencies: Readonly<Record<string, string>>;
  readonly peerDependencies: Readonly<Record<string, string>>;
};
/** The paths that npm puts into the package. */
let packed: Set<string>;

beforeAll(() => {
  const args = ['pack', '--dry-run', '--json', '--ignore-scripts', '--loglevel=error'];
  const [{ files }] = JSON.parse(execFileSync('npm', args, { cwd: root, encoding: 'utf8' })) as [
    { files: { path: string }[] },
  ];
  packed = new Set(files.map(({ path }) => path));
});

describe('the package', () => {
  test('contains every module and declaration that its users can reach', () => {
    const modules = [...reachableModules()].map((path) => relative(root, path));
    const declarations = [...reachableDeclarations()].map((path) => relative(join(root, 'dist'), path));
    expect([modules.length, declarations.length].every((count) => count > 100)).toBe(true);
    const needed = [
      ...modules,
      ...declarations.flatMap((path) => [`dist/types/${path}`, `dist/cjs/${path}`]),
      ...['dist/bin/exec-server.cjs', 'dist/bin/file-helper.cjs', 'dist/console-page/index.html'],
      ...['dist/THIRD_PARTY_NOTICES.txt', 'dist/console-page/THIRD_PARTY_NOTICES.txt'],
    ];
    expect(needed.filter((path) => !packed.has(path))).toEqual([]);
  });

  test('contains hardly any code that its users cannot reach, and nothing for developers', () => {
    const reachable = new Set([...reachableModules()].map((path) => relative(root, path)));
    const unreachable = [...packed].filter(
      (path) => /^dist\/(?!bin|cjs|types|console-page).*\.js$/.test(path) && !reachable.has(path),
    );
    // Single modules of commands may share a folder with the library. Whole folders belong to `files` in package.json.
    const bytes = unreachable.reduce((sum, path) => sum + statSync(join(root, path)).size, 0);
    expect(bytes, unreachable.join(', ')).toBeLessThan(64 * 1024);
    const unwanted = /\.(?:map|cache|ts\.new|tsbuildinfo)$|^docs\/decisions|^(?:src|tests|scripts|bench)\//;
    expect([...packed].filter((path) => unwanted.test(path))).toEqual([]);
  });

  test('depends on the packages that its modules import, and on no others', () => {
    const imported = new Set(
      [...reachableModules()].flatMap((path) =>
        Array.from(
          withoutComments(readFileSync(path, 'utf8')).matchAll(
            /(?:^(?:import|export)\b[^;]*?\bfrom\s+|(?<![.#\w])(?:import|require)\()['"]((?!node:)(?:@[a-z\d-]+\/)?[a-z\d-]+)(?:\/[^'"]*)?['"]/gm,
          ),
          ([, name]) => name!,
        ),
      ),
    );
    const { dependencies, peerDependencies } = manifest;
    expect([...imported].sort()).toEqual(Object.keys({ ...dependencies, ...peerDependencies }).sort());
  });

  test('installs no type packages and runs no install scripts', () => {
    const { dependencies, optionalDependencies } = manifest;
    const installed = Object.keys({ ...dependencies, ...optionalDependencies });
    expect(installed.filter((name) => name.startsWith('@types/'))).toEqual([]);
    const { packages } = JSON.parse(read('package-lock.json')) as {
      packages: Record<string, { dev?: boolean; devOptional?: boolean; hasInstallScript?: boolean }>;
    };
    const scripted = Object.entries(packages).filter(
      ([, { dev, devOptional, hasInstallScript }]) => hasInstallScript && !dev && !devOptional,
    );
    expect(scripted.map(([path]) => path)).toEqual([]);
  });

  test('has links to packed files, or to the repository', () => {
    const pages = [...packed].filter((path) => path.endsWith('.md'));
    expect(pages.length).toBeGreaterThan(30);
    const base = repositoryUrl();
    const broken = pages.flatMap((page) =>
      Array.from(read(page).matchAll(/\]\(([^)#\s]+)[^)\s]*\)/g), ([, target]) => target!)
        .filter((target) =>
          target.startsWith(base)
            ? !existsSync(join(root, target.slice(base.length)))
            : !/^[a-z]+:/.test(target) && !isPacked(join(dirname(page), target)),
        )
        .map((target) => `${page}: ${target}`),
    );
    expect(broken).toEqual([]);
  });
});

/** Whether a path is a packed file, or a folder with packed files. */
function isPacked(path: string): boolean {
  const folder = path.endsWith('/') ? path : `${path}/`;
  return packed.has(path) || [...packed].some((file) => file.startsWith(folder));
}

function withoutComments(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\//g, '').replace(/^\s*\/\/.*$/gm, '');
}
