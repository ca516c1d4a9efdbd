// Fills the generated parts of docs/cli.md from the built program: the help text and the table of settings.
//
//   node scripts/generate-cli.mjs            writes the file
//   node scripts/generate-cli.mjs --check    exits 1 when the file is out of date
import { readFileSync, writeFileSync } from 'node:fs';
import { helpText } from '../dist/cli/help.js';
import { CONFIG_OPTIONS } from '../dist/server/config/config.js';
import { describeAllowed, formatConfigValue } from '../dist/server/config/values.js';

const FILE = new URL('../docs/cli.md', import.meta.url);

const parts = {
  help: `\`\`\`text\n${helpText()}\`\`\``,
  settings: settingsTable(),
};
const current = readFileSync(FILE, 'utf8');
const generated = Object.entries(parts).reduce(replacePart, current);

if (!process.argv.includes('--check')) {
  writeFileSync(FILE, generated);
} else if (generated !== current) {
  process.stderr.write('docs/cli.md is out of date; run `node scripts/generate-cli.mjs`\n');
  process.exitCode = 1;
}

function replacePart(document, [name, text]) {
  const [begin, end] = [`<!-- generated: ${name} -->\n`, `\n<!-- end: ${name} -->`];
  const from = document.indexOf(begin);
  const to = document.indexOf(end, from);
  if (from === -1 || to === -1) throw new Error(`docs/cli.md has no markers for the ${name}`);
  return document.slice(0, from + begin.length) + text + document.slice(to);
}

function settingsTable() {
  const rows = CONFIG_OPTIONS.map((option) => {
    const value = formatConfigValue(option, option.default);
    return `| \`${option.key}\` | ${value === '' ? 'none' : `\`${value}\``} | ${describeAllowed(option)} | ${option.description} |`;
  });
  return ['| key | default | allowed | meaning |', '|---|---|---|---|', ...rows].join('\n');
}
