// Writes the man page from the table of commands, in the macros of man(7).
import { COMMANDS, GROUPS } from '../dist/cli/commands.js';
import { EXIT_CODES } from '../dist/cli/failures.js';
import { flagText, groupFlags } from '../dist/cli/help.js';
import { VERSION } from '../dist/observability/version.js';

/** @returns {Promise<string>} the page in roff */
export async function manPage() {
  const commands = await Promise.all(
    COMMANDS.map(async (command) => ({ ...command, ...(await command.spec()) })),
  );
  return [
    `.TH EXEC\\-SERVER 1 "" "exec\\-server ${roff(VERSION)}" "User Commands"`,
    '.SH NAME',
    'exec\\-server \\- run programs and file operations for clients, here or on other machines',
    '.SH SYNOPSIS',
    '.B exec\\-server',
    '.RI [ COMMAND ]',
    '.RI [ options ]',
    '.SH DESCRIPTION',
    'Without a command it serves.',
    ...GROUPS.flatMap((group) => [
      `.SS ${group}`,
      ...commands
        .filter((command) => command.group === group)
        .flatMap(({ name, summary }) => ['.TP', `.B ${roff(name)}`, text(`${summary}.`)]),
    ]),
    '.SH COMMANDS',
    ...commands.flatMap(describe),
    '.SH EXIT STATUS',
    ...Object.values(EXIT_CODES).flatMap(({ code, meaning }) => ['.TP', `.B ${code}`, text(meaning)]),
    '',
  ].join('\n');
}

/** The settings of `serve` are described there only, although `config` takes them too. */
function describe({ name, usage, description, flags, notes = {}, examples }) {
  const own = name === 'config' ? { json: flags.json, help: flags.help } : flags;
  return [
    `.SS ${roff(name)}`,
    ...usage.flatMap((line) => ['.PP', `.B exec\\-server ${roff(name)}`, text(line)]),
    ...description.split('\n\n').flatMap((paragraph) => ['.PP', text(paragraph)]),
    ...[...groupFlags(own)].flatMap(([title, members]) => [
      '.PP',
      `.I ${roff(title)}`,
      ...members.flatMap(([flag, spec]) => [
        '.TP',
        `.B ${roff(flagText(flag, spec))}`,
        text(spec.description),
        ...(spec.details === undefined ? [] : ['.br', text(spec.details)]),
      ]),
    ]),
    ...Object.entries(notes)
      // The page has a section for them.
      .filter(([title]) => title !== 'Exit codes')
      .flatMap(([title, note]) => ['.PP', `.I ${roff(title)}`, '.br', text(note)]),
    '.PP',
    '.I Examples',
    ...examples.flatMap(({ line, meaning }) => ['.TP', `.B exec\\-server ${roff(line)}`, text(meaning)]),
  ];
}

/** A line of text must not begin with a control character. */
function text(value) {
  return roff(value).replace(/^(?=[.'])/gm, '\\&');
}

function roff(value) {
  return value
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replace(/[^\x20-\x7e\n]/g, (character) => {
      return `\\[u${character.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}]`;
    });
}
