// Which compiled modules and type declarations users of the package can reach: what an entry of `exports` imports, directly or not, and the
// programs of worker threads.
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));

/** `import … from 'x'`, `export … from 'x'`, `import 'x'` and `import('x')`. */
const IMPORT = /(?:\bfrom\s*|\bimport\s*\(?\s*)["'](\.[^"'\n]+)["']/g;
const THREAD = /\bthreadProgram\(\s*["']([^"'\n]+\.js)["']/g;

/** Absolute paths of the reachable modules. */
export function reachableModules() {
  return reach(entryModules(), (path) => path);
}

/** Absolute paths of the reachable declarations, which the compiler writes beside the modules. They name `.ts` files. */
export function reachableDeclarations() {
  const toFile = (path) => path.replace(/\.[jt]s$/, '.d.ts');
  return reach(entryModules().map(toFile), toFile);
}

/** Absolute paths of the modules that users import. */
export function entryModules() {
  const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const entries = Object.values(exports).filter((entry) => typeof entry === 'object');
  return entries
    .flatMap((entry) => [entry, entry.browser ?? []].flat())
    .map((entry) => join(root, entry.default));
}

function reach(entries, toFile) {
  const found = new Set();
  const pending = [...entries];
  for (let file = pending.pop(); file !== undefined; file = pending.pop()) {
    if (found.has(file)) continue;
    found.add(file);
    const text = readFileSync(file, 'utf8');
    const imported = Array.from(text.matchAll(IMPORT), ([, path]) => toFile(resolve(dirname(file), path)));
    const threads = Array.from(text.matchAll(THREAD), ([, path]) => join(root, 'dist', path));
    // Comments and texts may contain what looks like an import.
    pending.push(...[...imported, ...threads].filter((path) => existsSync(path)));
  }
  return found;
}
