// Enforces the layering of src/: which folder may import which, and which may load native code or websockets or use the
// process. Also refuses undocumented interfaces of Node. Prints each violation as `file:line: reason` and exits 1 if there is one.
//
//   node scripts/check-layers.mjs [ROOT]     ROOT contains src/; the project itself by default
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { BASE, LAYERS } from './layers.mjs';
import { maskSource } from './source-text.mjs';

/** Packages that only one folder may load, and that folder. */
const PACKAGE_OWNERS = { koffi: 'src/native/', ws: 'src/transport/' };

/** Folders that restrict which packages and Node modules they load. */
const PACKAGES_OF = { [BASE]: [], protocol: ['zod'] };

/** Names that only src/cli/ may use. Everything console prints there goes to stdout, which is a transport. */
const PROCESS_NAMES =
  /\b(?:process\s*\.\s*(?:exit|argv|stdout)|console\s*\.\s*(?:log|info|debug|dir|table))\b/g;
const PROCESS_IMPORTS = /\b(?:exit|argv|stdout)\b/;

/** Signals that Node may collect as garbage before they abort. `TimeLimit` of src/base replaces them. */
const COLLECTED_SIGNALS = /\bAbortSignal\s*\.\s*(?:any|timeout)\b/g;

/**
 * Interfaces of Node that are not documented and differ between versions: its bindings, and members whose names begin with an
 * underscore, or are symbols that only reflection finds. Documented ones begin with an underscore too: what subclasses of streams
 * override, and may call on `super` only, and what zod offers to libraries.
 */
const UNDOCUMENTED =
  /\b(?:process\s*\.\s*binding|internalBinding|getOwnPropertySymbols|_handle)\b|\.\s*_(?!handle\b|(?:zod|default)\b|(?<=\bsuper\s*\.\s*_)(?:read|write|writev|final|destroy|construct|transform|flush)\b)\w+/g;
/** Methods of sockets that Node calls itself and that code must not replace, and the event before the documented `secureConnection`. */
const REPLACED_OR_INTERNAL = /\.\s*destroySoon\s*=(?!=)|\.\s*(?:on|once)\s*\(\s*'secure'/g;
/** The libraries that native code may be loaded from. `null` would be the Node binary itself. */
const LIBRARY_LOADS = /\bkoffi\s*\.\s*load\s*\((?!\s*'libc\.so\.6'\s*\))/g;

/** Folders that must load in a browser, and the modules that prevent it when they are imported, directly or indirectly. */
const PORTABLE = ['protocol', 'client'];
const NOT_PORTABLE = new Set(['node:child_process', 'koffi', 'node:fs', 'node:fs/promises']);
/** Files of portable folders that only Node loads; no other file of the folder may import them. */
const NODE_ONLY = /^src\/client\/(?:stdio|index|client|files\/node-files|files\/transfer\/[^/]+)\.ts$/;

/** `import x from 'y'`, `export … from 'y'` and `import 'y'`; `import type` marks itself. */
const FROM =
  /\b(?:import|export)\b(?:(?<type>\s+type\b(?!\s*(?:,|from\b)))?(?<names>[\w\s{},*$]*?)\bfrom|(?<=import))\s*(?<quote>['"])(?<specifier>[^'"\n]+)\k<quote>/g;
/** `import('y')` and `require('y')`. */
const CALL = /\b(?:import|require)\s*\(\s*(?<quote>['"])(?<specifier>[^'"\n]+)\k<quote>/g;

const root = resolve(process.argv[2] ?? join(dirname(fileURLToPath(import.meta.url)), '..'));
const sources = new Map(listSources(join(root, 'src')).map((path) => [path, readSource(path)]));
const violations = [
  ...[...sources.values()].flatMap((source) => [
    ...folderViolations(source),
    ...nameViolations(source),
    ...undocumentedViolations(source),
  ]),
  ...cycleViolations(),
  ...portabilityViolations(),
];
for (const { path, line, reason } of violations)
  process.stdout.write(`${display(path)}:${line}: ${reason}\n`);
if (sources.size === 0) {
  process.stdout.write(`${display(join(root, 'src'))}:1: contains no TypeScript\n`);
}
process.exitCode = violations.length > 0 || sources.size === 0 ? 1 : 0;

/** @returns every .ts file below a folder, sorted, so that the report is stable. */
function listSources(folder) {
  if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory()) return [];
  return readdirSync(folder, { recursive: true })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => join(folder, name))
    .sort();
}

function readSource(path) {
  const text = readFileSync(path, 'utf8');
  const masked = maskSource(text);
  return { path, folder: folderOf(path), ...masked, imports: findImports(masked, path) };
}

/** Static and dynamic imports, re-exports and require calls, each with the file it resolves to if it is in src. */
function findImports({ code, withStrings }, path) {
  const found = [];
  for (const pattern of [FROM, CALL]) {
    for (const match of withStrings.matchAll(pattern)) {
      // A match that begins in a blank of `code` is inside a string.
      if (code[match.index] === ' ') continue;
      const { specifier, type, names = '' } = match.groups;
      const target = specifier.startsWith('.') ? resolve(dirname(path), specifier) : null;
      found.push({ specifier, target, names, typeOnly: type !== undefined, line: lineAt(code, match.index) });
    }
  }
  return found;
}

function* folderViolations({ path, folder, imports }) {
  if (!(folder in LAYERS)) {
    yield { path, line: 1, reason: `src/${folder} is not listed in scripts/layers.mjs` };
    return;
  }
  for (const { specifier, target, line, typeOnly } of imports) {
    const reason =
      target === null ? packageViolation(path, folder, specifier) : importViolation(folder, target, typeOnly);
    if (reason !== null) yield { path, line, reason };
  }
}

function importViolation(folder, target, typeOnly) {
  const other = folderOf(target);
  if (other === null) return `imports ${display(target)}, which is outside src`;
  if (other === folder || other === BASE) return null;
  const allowed = LAYERS[folder].imports;
  if (other === 'cli') return `src/${folder} may not import src/cli`;
  if (allowed.includes('*') || allowed.includes(other)) return null;
  if (!allowed.includes(`types:${other}`)) return `src/${folder} may not import src/${other}`;
  return typeOnly ? null : `src/${folder} may import types only from src/${other}: write \`import type\``;
}

function packageViolation(path, folder, specifier) {
  const name = specifier.split('/')[specifier.startsWith('@') ? 1 : 0];
  if (name === 'exec-server') return 'imports its own package by name: use a relative path';
  const owner = PACKAGE_OWNERS[name];
  if (owner !== undefined && !display(path).startsWith(owner)) return `only ${owner} may import ${name}`;
  const packages = PACKAGES_OF[folder];
  if (packages !== undefined && !packages.includes(name)) {
    const but = packages.length === 0 ? '' : ` but ${packages.join(', ')}`;
    return `src/${folder} may import no package${but}: ${specifier}`;
  }
  return null;
}

function* nameViolations({ path, folder, code, imports }) {
  for (const match of code.matchAll(COLLECTED_SIGNALS)) {
    const reason = `${match[0].replace(/\s/g, '')} may never abort: use TimeLimit of src/base/time-limit.ts`;
    yield { path, line: lineAt(code, match.index), reason };
  }
  if (folder === 'cli') return;
  for (const match of code.matchAll(PROCESS_NAMES)) {
    yield {
      path,
      line: lineAt(code, match.index),
      reason: `only src/cli may use ${match[0].replace(/\s/g, '')}`,
    };
  }
  for (const { specifier, names, line } of imports) {
    const name = /^(?:node:)?process$/.test(specifier) && PROCESS_IMPORTS.exec(names)?.[0];
    if (name) yield { path, line, reason: `only src/cli may use process.${name}` };
  }
}

function* undocumentedViolations({ path, code, withStrings }) {
  for (const { 0: name, index } of code.matchAll(UNDOCUMENTED)) {
    const reason = `${name.replace(/\s|^\./g, '')} is not a documented interface`;
    yield { path, line: lineAt(code, index), reason };
  }
  for (const { 0: name, index } of withStrings.matchAll(REPLACED_OR_INTERNAL)) {
    const reason = `${name.replace(/\s|^\./g, '')} does not use a documented interface`;
    yield { path, line: lineAt(code, index), reason };
  }
  for (const { index } of withStrings.matchAll(LIBRARY_LOADS)) {
    yield { path, line: lineAt(code, index), reason: 'native code may only be loaded from libc.so.6' };
  }
}

/** Reports each cycle of folders once, at an import that closes it. Type-only imports count, because they couple designs too. */
function* cycleViolations() {
  const edges = new Map();
  for (const { path, folder, imports } of sources.values()) {
    for (const { target, line } of imports) {
      const other = target === null ? null : folderOf(target);
      if (other === null || other === folder) continue;
      if (!edges.has(folder)) edges.set(folder, new Map());
      if (!edges.get(folder).has(other)) edges.get(folder).set(other, { path, line });
    }
  }
  const finished = new Set();
  function* visit(folder, trail) {
    for (const [other, at] of edges.get(folder) ?? []) {
      if (trail.includes(other)) {
        const cycle = [...trail.slice(trail.indexOf(other)), other].map((name) => `src/${name}`);
        yield { ...at, reason: `import cycle between folders: ${cycle.join(' -> ')}` };
      } else if (!finished.has(other)) {
        yield* visit(other, [...trail, other]);
      }
    }
    finished.add(folder);
  }
  for (const folder of edges.keys()) if (!finished.has(folder)) yield* visit(folder, [folder]);
}

/** Follows the run-time imports of every portable file. */
function* portabilityViolations() {
  const reported = new Set();
  for (const start of sources.values()) {
    if (!PORTABLE.includes(start.folder) || NODE_ONLY.test(display(start.path))) continue;
    const queue = [[start]];
    const seen = new Set([start.path]);
    for (let trail = queue.shift(); trail !== undefined; trail = queue.shift()) {
      const { path, imports } = trail.at(-1);
      for (const { specifier, target, typeOnly, line } of imports) {
        if (typeOnly) continue;
        const module = canonicalModule(specifier);
        if (NOT_PORTABLE.has(module) && !reported.has(`${start.folder}:${path}:${module}`)) {
          reported.add(`${start.folder}:${path}:${module}`);
          const way = trail.map((source) => display(source.path)).join(' -> ');
          yield {
            path,
            line,
            reason: `src/${start.folder} must run in a browser but reaches ${module}: ${way}`,
          };
        }
        const next = sources.get(target);
        if (next === undefined || seen.has(next.path)) continue;
        seen.add(next.path);
        queue.push([...trail, next]);
      }
    }
  }
}

function canonicalModule(specifier) {
  return /^(?:child_process|fs|fs\/promises)$/.test(specifier) ? `node:${specifier}` : specifier;
}

/** The first path segment below src; null outside. A file directly in src is its own folder. */
function folderOf(path) {
  const below = relative(join(root, 'src'), path);
  return below.startsWith('..') ? null : below.split(/[\\/]/)[0];
}

function lineAt(text, index) {
  return text.slice(0, index).split('\n').length;
}

function display(path) {
  return relative(root, path).replaceAll('\\', '/');
}
