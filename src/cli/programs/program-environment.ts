import { readFileSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import type { SpawnOptions } from '../../client/process/spawn.ts';
import { quoteValue } from '../../server/config/values.ts';
import { UsageError } from '../failures.ts';
import { cannotReadFile } from '../file-failures.ts';
import { visible } from '../terminal-text.ts';
import { MAX_ENV_FILE_BYTES } from './limits.ts';
import { undecodableVariables } from './undecodable-variables.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Returns the variables of `--env-file` and `-e`; the latter win. `NAME` without a value takes the value that the variable has here, as
 * docker does, and is left out where there is none.
 */
export function programEnvironment(
  files: readonly string[],
  given: readonly string[],
  own: Environment,
): Record<string, string> {
  const fromFiles = files.flatMap((file) => fileEntries(file));
  const fromFlags = given.map((text) => ({ text, source: '-e' }));
  const entries = [...fromFiles, ...fromFlags].flatMap(({ text, source }) => {
    const [, name, value] = /^([^=\0]+?)(?:=([^\0]*))?$/s.exec(text) ?? [];
    if (name === undefined)
      throw new UsageError(`${source}: ${quoteValue(text)} is not NAME=VALUE or NAME`, 'run');
    // A program could not use a variable with a space in its name, so this is a typing mistake.
    if (/[\s\p{Cc}]/u.test(name)) {
      throw new UsageError(
        `${source}: ${quoteValue(name)} is not the name of a variable; it has no spaces: NAME=VALUE`,
        'run',
      );
    }
    if (value === undefined && undecodableVariables({ [name]: own[name] }).size > 0) {
      throw new UsageError(
        `${source}: the value that ${quoteValue(name)} has here is not UTF-8 and cannot be sent; give it as ${name}=VALUE`,
        'run',
      );
    }
    const chosen = value ?? own[name];
    return chosen === undefined ? [] : [[name, chosen] as const];
  });
  return Object.fromEntries(entries);
}

/**
 * What makes a program of the private server run as if it were started here: the directory of this command, or `workdir`, and all of its
 * variables but those of exec-server itself, which may be the token of another server. The program inherits none of the server, which
 * has those of the command that happened to start it. Variables that are not UTF-8 cannot be sent: `note` gets a text that names them.
 */
export function asIfHere(
  own: Environment,
  note: (text: string) => void,
  workdir: SpawnOptions['cwd'] = '.',
): AsIfHere {
  const cwd = resolve(String(workdir));
  const undecodable = undecodableVariables(own);
  const variables = Object.entries(own).filter(
    (entry): entry is [string, string] =>
      entry[1] !== undefined && !entry[0].startsWith('EXEC_SERVER_') && !undecodable.has(entry[0]),
  );
  if (undecodable.size > 0) {
    const names = [...undecodable].map(visible).join(', ');
    note(`exec-server: the program does not get these variables, because they are not UTF-8: ${names}\n`);
  }
  return {
    cwd,
    // A shell here has set PWD to its own directory.
    env: { ...Object.fromEntries(variables), ...(workdir !== '.' && own.PWD !== undefined && { PWD: cwd }) },
    envPolicy: { inherit: 'none' },
  };
}

interface AsIfHere extends Pick<SpawnOptions, 'envPolicy'> {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
}

/** Lines of NAME=VALUE or NAME, as in a file for docker. Quotes belong to the value. */
function fileEntries(file: string): { readonly text: string; readonly source: string }[] {
  let text: string;
  try {
    const { size } = statSync(file);
    if (size > MAX_ENV_FILE_BYTES) throw new Error(`it has more than ${MAX_ENV_FILE_BYTES} bytes`);
    text = readFileSync(file, 'utf8');
  } catch (error) {
    throw cannotReadFile(`the file of --env-file ${file}`, error);
  }
  return text
    .replace(/^\uFEFF/, '')
    .split(/\r?\n/)
    .map((line, index) => ({ text: line.trimStart(), source: `${file}:${index + 1}` }))
    .filter((line) => line.text !== '' && !line.text.startsWith('#'));
}
