import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

const ROOT = resolve(import.meta.dirname, '../..');

/** Compiles one source file and what it imports, for tests that need a plain node process of their own. */
export function compileSource(entry: string): { readonly module: string; readonly remove: () => void } {
  const cache = join(ROOT, 'node_modules', '.cache');
  mkdirSync(cache, { recursive: true });
  const outDir = mkdtempSync(join(cache, 'compiled-'));
  const config = join(outDir, 'tsconfig.json');
  const compilerOptions = {
    noEmit: false,
    noCheck: true,
    allowImportingTsExtensions: false,
    rootDir: join(ROOT, 'src'),
    outDir,
    typeRoots: [join(ROOT, 'node_modules/@types')],
  };
  const extended = join(ROOT, 'tsconfig.json');
  writeFileSync(
    config,
    JSON.stringify({ extends: extended, compilerOptions, include: [], files: [join(ROOT, 'src', entry)] }),
  );
  writeFileSync(join(outDir, 'package.json'), '{"type":"module"}');
  execFileSync(process.execPath, [join(ROOT, 'node_modules/typescript/bin/tsc'), '-p', config]);
  return {
    module: join(outDir, entry.replace(/\.ts$/, '.js')),
    remove: () => rmSync(outDir, { recursive: true, force: true }),
  };
}
