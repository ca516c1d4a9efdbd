// The commands and programs of the documentation, for tests that run them.
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));

/** The fenced blocks of a page of this repository. */
export function docBlocks(page) {
  const text = readFileSync(join(root, page), 'utf8');
  return [...text.matchAll(/^```(\w+)([^\n]*)\n([\s\S]*?)^```$/gm)].map((match) => ({
    language: match[1],
    flags: match[2].trim().split(/\s+/),
    text: match[3],
    line: text.slice(0, match.index).split('\n').length,
  }));
}

/** The commands of a `console` block with their outputs. A line that ends with a backslash goes on in the next one. */
export function parseConsole(text) {
  const commands = [];
  for (const line of text.split('\n').slice(0, -1)) {
    const last = commands.at(-1);
    if (line.startsWith('$ ')) commands.push({ command: line.slice(2), expected: '' });
    else if (last?.expected === '' && last.command.endsWith('\\')) last.command += `\n${line}`;
    else if (last !== undefined) last.expected += `${line}\n`;
  }
  return commands;
}

/** `…` stands for any text, also of several lines. Spaces at the end of the output do not count. */
export function outputPattern(expected, extent) {
  const source = expected
    .trimEnd()
    .split('…')
    .map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))
    .join('[\\s\\S]*?');
  return new RegExp(extent === 'whole' ? `^\\s*${source}\\s*$` : `${source}\\n`);
}
