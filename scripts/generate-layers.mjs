// Writes the table of scripts/layers.mjs into ARCHITECTURE.md. With --check it writes nothing and fails if the page is out of date.
import { readFileSync, writeFileSync } from 'node:fs';
import { LAYERS } from './layers.mjs';

const PAGE = new URL('../ARCHITECTURE.md', import.meta.url);
const BEGIN = '<!-- generated: layers -->\n';
const END = '<!-- end: layers -->';

const current = readFileSync(PAGE, 'utf8');
const [from, to] = [current.indexOf(BEGIN), current.indexOf(END)];
if (from === -1 || to === -1) throw new Error('ARCHITECTURE.md has no markers for the table of layers');
const generated = current.slice(0, from + BEGIN.length) + layerTable() + current.slice(to);

if (!process.argv.includes('--check')) {
  writeFileSync(PAGE, generated);
} else if (generated !== current) {
  process.stderr.write(
    'the table of layers in ARCHITECTURE.md is out of date; run `node scripts/generate-layers.mjs`\n',
  );
  process.exitCode = 1;
}

function layerTable() {
  const rows = Object.entries(LAYERS).map(
    ([folder, { subject, imports }]) =>
      `| \`src/${folder}\` | ${subject} | ${imports.map((name) => describe(name, folder)).join(', ') || 'nothing'} |`,
  );
  return ['| folder | subject | may import, besides `base` |', '|---|---|---|', ...rows, ''].join('\n');
}

function describe(name, folder) {
  if (name === '*') return folder === 'cli' ? 'everything' : 'everything but `cli`';
  return name.startsWith('types:') ? `types of ${name.slice('types:'.length)}` : name;
}
