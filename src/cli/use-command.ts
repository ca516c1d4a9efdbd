import { quoteValue } from '../server/config/values.ts';
import { type CommandResult, type Host, printed } from './commands.ts';
import { currentDirectory } from './environments/current-directory.ts';
import { setDefault } from './environments/environments-file.ts';
import { select } from './environments/selection.ts';
import { findTarget, LOCAL, type TargetSources } from './environments/target.ts';
import { UsageError } from './failures.ts';
import { parseFlags } from './flags.ts';
import { USE_FLAGS } from './specs/environment-specs.ts';

/** Chooses the environment of a directory, or of all, or prints the one in use. */
export async function useCommand(argv: readonly string[], { env }: Host): Promise<CommandResult> {
  const { flags, positionals } = parseFlags('use', argv, USE_FLAGS);
  const [name, unexpected] = positionals;
  if (unexpected !== undefined) throw new UsageError(`unexpected argument ${quoteValue(unexpected)}`, 'use');
  const sources = { env, directory: currentDirectory() };
  if (name === undefined && !flags.unset) {
    if (flags.global) throw new UsageError('--global needs a name or --unset', 'use');
    return printed(await inUse(sources, flags.json));
  }
  if (name !== undefined && flags.unset) throw new UsageError('--unset takes no name', 'use');
  if (name?.includes(':')) {
    throw new UsageError(
      `${quoteValue(name)} is not a name; add one with 'exec-server env add NAME URL'`,
      'use',
    );
  }
  // Refuses a name that does not exist.
  if (name !== undefined) await findTarget({ environment: name, tokenFile: null, source: 'use' }, sources);
  if (flags.global) await setDefault(env, name ?? null);
  else await select(process.cwd(), name ?? null, env);
  const text = flags.json ? await inUse(sources, true) : '';
  const overruled = env.EXEC_SERVER_URL ? OVERRULED : '';
  return { text, details: name === undefined ? await remaining(sources) : overruled, exitCode: 0 };
}

/** The line about another choice that is in use after one was removed. A choice that names nothing is reported by the next command. */
async function remaining(sources: TargetSources): Promise<string> {
  const left = await findTarget({ environment: null, tokenFile: null }, sources).catch(() => null);
  if (left === null || left.name === LOCAL) return '';
  return `${left.name} is in use now (${left.source})\n`;
}

/** The line about the environment that commands use without -E. */
async function inUse(sources: TargetSources, json = false): Promise<string> {
  const { name, address, source } = await findTarget({ environment: null, tokenFile: null }, sources);
  return json ? `${JSON.stringify({ name, address, source })}\n` : `${name}\t${address}\t${source}\n`;
}

const OVERRULED = 'chosen, but EXEC_SERVER_URL is set and wins; unset it to use the choice\n';
