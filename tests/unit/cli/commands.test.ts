import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, test } from 'vitest';
import { BUNDLES, MODULES } from '../../../scripts/bundle-cli.mjs';
import { COMMANDS, findCommand } from '../../../src/cli/commands.ts';
import { parseFlags } from '../../../src/cli/flags.ts';
import { commandHelp, programHelp } from '../../../src/cli/help.ts';
import { Workspace } from './run-cli.ts';

const workspace = new Workspace();
afterAll(() => workspace.close());

const MAN_PAGE = fileURLToPath(new URL('../../../man/exec-server.1', import.meta.url));

const COMMANDS_SOURCE = readFileSync(new URL('../../../src/cli/commands.ts', import.meta.url), 'utf8');

test('the help of the program fits a terminal of 80 columns and 24 lines', () => {
  const lines = programHelp().trimEnd().split('\n');
  expect(lines.length).toBeLessThanOrEqual(23);
  for (const line of lines) expect(line.length, line).toBeLessThanOrEqual(80);
  for (const { name } of COMMANDS) expect(programHelp()).toContain(` ${name} `);
});

test('names and aliases are unique', () => {
  const names = COMMANDS.flatMap(({ name, aliases = [] }) => [name, ...aliases]);
  expect(new Set(names).size).toBe(names.length);
  expect(findCommand('forward')).toBe(findCommand('connect'));
});

/** The module that runs each command, and that of its description, as src/cli/commands.ts has them. */
function modulesOf(name: string): string[] {
  const [, entry] = new RegExp(`\n    name: '${name}',\n([\\s\\S]*?)\n  \\},`).exec(COMMANDS_SOURCE)!;
  return Array.from(entry!.matchAll(/import\('(.*?)\.ts'\)/g), ([, path]) => `${path}.js`);
}

test('each bundle has the modules of its commands, and only main has those of the others', () => {
  const bundleOf = (name: string) =>
    Object.entries(BUNDLES).find(([, names]) => names.includes(name))?.[0] ?? 'main';
  for (const { name } of COMMANDS) {
    const modules = modulesOf(name);
    expect(modules).toHaveLength(2);
    for (const module of modules) expect(MODULES[bundleOf(name)]!(module), `${name}: ${module}`).toBe(true);
  }
  const known = [...COMMANDS.map(({ name }) => name), '__complete'];
  expect(known).toEqual(expect.arrayContaining(Object.values(BUNDLES).flat()));
});

describe.each(COMMANDS)('$name', (command) => {
  test('has a summary for the two columns of the help', () => {
    expect(command.summary.length).toBeLessThanOrEqual(24);
  });

  test('has help that fits 80 columns, besides long examples', async () => {
    const help = commandHelp(command, await command.spec());
    const lines = help.split('\n').filter((line) => !line.startsWith('  exec-server '));
    for (const line of lines) expect(line.length, line).toBeLessThanOrEqual(80);
    expect(help).toMatch(/^ {2}(?:-h, )?--help\b/m);
  });

  test.each(['-h', '--help'])('prints its help with %s', async (flag) => {
    const { code, stdout } = await workspace.runHere([command.name, flag]);
    expect([code, stdout]).toEqual([0, expect.stringContaining(`Usage: exec-server ${command.name}`)]);
  });

  test('has examples of itself whose flags exist', async () => {
    const { examples, flags } = await command.spec();
    for (const { line } of examples) {
      const [name, ...words] = line.split(/ [<>] /)[0]!.split(' ');
      expect(name).toBe(command.name);
      parseFlags(command.name, words, flags, command.takesProgram ? 'program' : 'anywhere');
    }
  });
});

const man = spawnSync('man', ['--version']);
test.skipIf(man.error !== undefined)('the man page has no warnings and describes every command', () => {
  const { stdout, stderr, status } = spawnSync('man', ['--warnings', '-l', MAN_PAGE], {
    encoding: 'utf8',
    env: { PATH: process.env.PATH, LC_ALL: 'C.UTF-8', MANWIDTH: '200' },
  });
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  for (const { name } of COMMANDS) expect(stdout).toContain(`exec-server ${name}`);
});
