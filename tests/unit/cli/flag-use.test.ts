import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { COMMANDS } from '../../../src/cli/commands.ts';
import { SETTING_FLAGS } from '../../../src/cli/server-arguments.ts';

const root = new URL('../../', import.meta.url);
const OWN_NAME = 'flag-use.test.ts';

/** The tests that run commands. */
const tests = ['e2e/', 'unit/cli/'].flatMap((folder) =>
  readdirSync(new URL(folder, root))
    .filter((name) => name.endsWith('.test.ts') && name !== OWN_NAME)
    .map((name) => readFileSync(new URL(folder + name, root), 'utf8')),
);

/** Whether a text has the word as an argument: in quotes, or in a command line. */
const hasArgument = (text: string, word: string) => new RegExp(`['"\`\\s]${word}['"\`\\s=,]`).test(text);

// This finds a new flag that no test uses. It cannot see what a test does with it.
test.each(COMMANDS)('each flag of $name occurs in a test file that names the command', async (command) => {
  const { name, aliases = [], spec } = command;
  // `serve` is what the program does without a command. The flags of `config` are its flags.
  const files = tests.filter(
    (text) =>
      ['serve', 'config'].includes(name) || [name, ...aliases].some((word) => hasArgument(text, word)),
  );
  const unused = Object.entries((await spec()).flags).filter(([flag, { short }]) => {
    // commands.test.ts asks every command for its help; command-transports.test.ts gives a server every setting.
    if (flag === 'help' || Object.hasOwn(SETTING_FLAGS, flag)) return false;
    const forms = [`--${flag}`, ...(short === undefined ? [] : [`-${short}`])];
    return !files.some((text) => forms.some((form) => hasArgument(text, form)));
  });
  expect(unused.map(([flag]) => flag)).toEqual([]);
});
