// Writes what users of the package see of the library besides the compiled modules:
//
//   dist/types   the type declarations that an entry of `exports` needs, and no others
//   dist/cjs     the entries for `require`. Each is one line that requires the real module: every supported Node can require ES modules, so
//                there is one copy of the code. The declarations are copies, because TypeScript decides by the folder whether they describe
//                a CommonJS module.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { entryModules, reachableDeclarations } from './package-modules.mjs';

const dist = join(dirname(dirname(fileURLToPath(import.meta.url))), 'dist');
const types = join(dist, 'types');
const cjs = join(dist, 'cjs');

for (const folder of [types, cjs]) rmSync(folder, { recursive: true, force: true });
write(join(cjs, 'package.json'), '{ "type": "commonjs" }\n');
for (const file of entryModules()) {
  const entry = join(cjs, relative(dist, file));
  write(entry, `module.exports = require('${relative(dirname(entry), file)}');\n`);
}
for (const file of reachableDeclarations()) {
  const text = readFileSync(file, 'utf8');
  for (const folder of [types, cjs]) write(join(folder, relative(dist, file)), text);
}

function write(file, text) {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
}
