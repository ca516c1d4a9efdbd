import type { CommandSpec, FlagSpec, FlagSpecs } from './command-spec.ts';
import { COMMANDS, type Command, GROUPS } from './commands.ts';

const WIDTH = 80;
/** Longer flags have their description on the lines below. */
const MAX_FLAG_COLUMN = 28;
const NAME_COLUMN = 13;
const CELL_COLUMN = 40;

/** The text of `exec-server --help`. It fits a terminal of 80 columns and 24 lines, so groups have no headings. */
export function programHelp(): string {
  const cells = GROUPS.flatMap((group) => COMMANDS.filter((command) => command.group === group)).map(
    ({ name, summary }) => `${name.padEnd(NAME_COLUMN)}${summary}`,
  );
  const half = Math.ceil(cells.length / 2);
  const rows = cells
    .slice(0, half)
    .map((cell, index) => `  ${cell.padEnd(CELL_COLUMN - 2)}${cells[half + index] ?? ''}`.trimEnd());
  return `\
Usage: exec-server [COMMAND] [options]

Runs programs and file operations, here or on other machines. Commands:

${rows.join('\n')}

Without a command it serves. 'exec-server COMMAND --help' describes a command,
'exec-server serve --help' also the settings. Options: -h, --help, -V, --version
`;
}

/** The text of `exec-server COMMAND --help`. It fits 80 columns. */
export function commandHelp({ name }: Pick<Command, 'name'>, spec: CommandSpec): string {
  const lines = spec.usage.map((line) => `exec-server ${name} ${line}`.trimEnd());
  const paragraphs = spec.description.split('\n\n').map((paragraph) => wrap(paragraph, 0, 0));
  const notes = Object.entries(spec.notes ?? {}).map(
    ([title, text]) =>
      `${title}:\n${text
        .split('\n')
        .map((line) => wrap(line, 2, 2))
        .join('')}`,
  );
  return [
    wrap(`Usage: ${lines[0]}`, 0, 12) +
      lines
        .slice(1)
        .map((line) => wrap(line, 7, 12))
        .join(''),
    ...paragraphs,
    ...flagSections(spec.flags),
    ...notes,
    `Examples:\n${spec.examples.map(({ line, meaning }) => `  exec-server ${line}\n${wrap(meaning, 6, 6)}`).join('')}`,
  ].join('\n');
}

/** The flags of a command by heading, in the order in which they are first named. */
export function groupFlags(flags: FlagSpecs): ReadonlyMap<string, readonly (readonly [string, FlagSpec])[]> {
  const groups = new Map<string, (readonly [string, FlagSpec])[]>();
  for (const [name, flag] of Object.entries(flags)) {
    if (isShownWithOpposite(flag, flags)) continue;
    const title = flag.group ?? 'Options';
    groups.set(title, [...(groups.get(title) ?? []), [name, flag]]);
  }
  return groups;
}

/** Whether the flag is part of the entry `--[no-]name`. */
function isShownWithOpposite({ sameAs }: FlagSpec, flags: FlagSpecs): boolean {
  return sameAs !== undefined && flags[sameAs]?.takesValue === true;
}

/** A flag as help writes it: `-p, --port PORT`. */
export function flagText(name: string, flag: FlagSpec): string {
  const negatable = flag.type === 'boolean' && flag.takesValue === true;
  const short = flag.short === undefined ? '' : `-${flag.short}, `;
  return `${short}--${negatable ? '[no-]' : ''}${name}${flag.value === undefined ? '' : ` ${flag.value}`}`;
}

function flagSections(flags: FlagSpecs): string[] {
  const widest = Math.max(
    ...Object.entries(flags)
      .filter(([, flag]) => !isShownWithOpposite(flag, flags))
      .map(([name, flag]) => flagText(name, flag).length),
  );
  const column = widest + 4 <= MAX_FLAG_COLUMN ? widest + 4 : null;
  return [...groupFlags(flags)].map(
    ([title, members]) => `${title}:\n${members.map((member) => entry(member, column)).join('')}`,
  );
}

/** With a column the description begins there, otherwise on the next line. */
function entry([name, flag]: readonly [string, FlagSpec], column: number | null): string {
  const head = `  ${flagText(name, flag)}`;
  const indent = column ?? 6;
  const text = wrap(flag.description, indent, indent);
  const details = flag.details === undefined ? '' : wrap(flag.details, indent, indent);
  return column === null
    ? `${head}\n${text}${details}`
    : `${head.padEnd(column)}${text.slice(column)}${details}`;
}

/** Breaks text at spaces; the first line is indented by `first`, the others by `rest`. */
function wrap(text: string, first: number, rest: number): string {
  let line = ' '.repeat(first);
  let lines = '';
  for (const word of text.split(' ')) {
    if (line.trim() !== '' && line.length + word.length > WIDTH) {
      lines += `${line.trimEnd()}\n`;
      line = ' '.repeat(rest);
    }
    line += `${word} `;
  }
  return `${lines}${line.trimEnd()}\n`;
}
