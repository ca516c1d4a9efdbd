import { readFileSync, statSync } from 'node:fs';
import { quoteValue } from '../../server/config/values.ts';
import { RunError, UsageError } from '../failures.ts';
import { MAX_ENV_FILE_BYTES } from './limits.ts';

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
    const chosen = value ?? own[name];
    return chosen === undefined ? [] : [[name, chosen] as const];
  });
  return Object.fromEntries(entries);
}

/** Lines of NAME=VALUE or NAME, as in a file for docker. Quotes belong to the value. */
function fileEntries(file: string): { readonly text: string; readonly source: string }[] {
  let text: string;
  try {
    const { size } = statSync(file);
    if (size > MAX_ENV_FILE_BYTES) throw new Error(`it has more than ${MAX_ENV_FILE_BYTES} bytes`);
    text = readFileSync(file, 'utf8');
  } catch (error) {
    throw new RunError(`cannot read the file of --env-file ${file}: ${(error as Error).message}`);
  }
  return text
    .replace(/^\uFEFF/, '')
    .split(/\r?\n/)
    .map((line, index) => ({ text: line.trimStart(), source: `${file}:${index + 1}` }))
    .filter((line) => line.text !== '' && !line.text.startsWith('#'));
}
