// Fills the generated parts of docs/cli.md from the built program, and writes the man page: the help texts and the table of settings.
//
//   node scripts/generate-cli.mjs            writes the files
//   node scripts/generate-cli.mjs --check    exits 1 when a file is out of date
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { COMMANDS } from '../dist/cli/commands.js';
import { commandHelp, programHelp } from '../dist/cli/help.js';
import { CONFIG_OPTIONS } from '../dist/server/config/config.js';
import { describeAllowed, formatConfigValue } from '../dist/server/config/values.js';
import { manPage } from './man-page.mjs';

const DOCUMENT = new URL('../docs/cli.md', import.meta.url);
const MAN_PAGE = new URL('../man/exec-server.1', import.meta.url);

const parts = {
  help: `\`\`\`text\n${programHelp()}\`\`\``,
  commands: (await Promise.all(COMMANDS.map(commandSection))).join('\n\n'),
  settings: settingsTable(),
};
write('docs/cli.md', DOCUMENT, Object.entries(parts).reduce(replacePart, readFileSync(DOCUMENT, 'utf8')));
mkdirSync(new URL('.', MAN_PAGE), { recursive: true });
write('man/exec-server.1', MAN_PAGE, await manPage());

function write(name, file, text) {
  if (!process.argv.includes('--check')) {
    writeFileSync(file, text);
  } else if (!existsSync(file) || readFileSync(file, 'utf8') !== text) {
    process.stderr.write(`${name} is out of date; run \`node scripts/generate-cli.mjs\`\n`);
    process.exitCode = 1;
  }
}

async function commandSection(command) {
  const spec = await command.spec();
  // It takes the flags of serve.
  const shown =
    command.name === 'config' ? { ...spec, flags: { json: spec.flags.json, help: spec.flags.help } } : spec;
  return `### ${command.name}\n\n\`\`\`text\n${commandHelp(command, shown)}\`\`\``;
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
