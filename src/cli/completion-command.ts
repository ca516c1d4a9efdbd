import { quoteValue } from '../server/config/values.ts';
import { type CommandResult, type Host, printed } from './commands.ts';
import { type Candidate, candidatesFor, type NameSource } from './completion.ts';
import { SCRIPTS } from './completion-scripts.ts';
import { UsageError } from './failures.ts';
import { parseFlags } from './flags.ts';
import { COMPLETION } from './specs/small-specs.ts';
import { visible } from './terminal-text.ts';

/** Prints the script that completes command lines in a shell. */
export function completionCommand(argv: readonly string[]): CommandResult {
  const { positionals } = parseFlags('completion', argv, COMPLETION.flags);
  const [shell, unexpected] = positionals;
  const known = Object.keys(SCRIPTS).join(', ');
  if (shell === undefined) throw new UsageError(`name a shell: ${known}`, 'completion');
  if (unexpected !== undefined) {
    throw new UsageError(`unexpected argument ${quoteValue(unexpected)}`, 'completion');
  }
  if (!Object.hasOwn(SCRIPTS, shell)) {
    throw new UsageError(`unknown shell ${quoteValue(shell)}; the shells are ${known}`, 'completion');
  }
  return printed(SCRIPTS[shell as keyof typeof SCRIPTS]);
}

/**
 * Prints the candidates for the last of the words after `--`, for the scripts of shells: first a line `none`, `files` or `directories`
 * about paths, then one line for each word, with a tab before its description. It prints nothing about errors: a script has no place
 * for them.
 */
export async function completeCommand(argv: readonly string[], { env }: Host): Promise<CommandResult> {
  const { words, paths } = await candidatesFor(argv.slice(1), namesOf(env));
  const lines = words
    .filter(({ word }) => IS_PLAIN.test(word))
    .map(({ word, description }) => `${word}\t${visible(shortened(description))}\n`);
  return printed(`${paths}\n${lines.join('')}`);
}

/** A word that no shell takes for more than a word. The shell inserts it as it is. */
const IS_PLAIN = /^[\p{L}\p{M}\p{N}_.,:=/@%+-]+$/u;
/** The same for a name that a server gives. It must not look like a flag either. */
const IS_NAME = /^\w[\w.-]*$/;

/** Environments, processes and recordings, where a command takes one. A file that cannot be read, or a server that is away, has none. */
function namesOf(env: NodeJS.ProcessEnv): NameSource {
  return async (kind, typed) => {
    if (kind === 'ENV') return environmentNames(env);
    if (kind === 'RECORDING') {
      const { recordingNames } = await import('./recordings/recording-names.ts');
      return plainNames(recordingNames(typed, env));
    }
    if (kind !== 'PROCESS' && kind !== 'RUNNING' && kind !== 'ENDED') return [];
    const { processNames } = await import('./programs/process-names.ts');
    return plainNames(processNames(kind, typed, env));
  };
}

async function plainNames(names: Promise<readonly Candidate[]>): Promise<readonly Candidate[]> {
  return (await names.catch(() => [])).filter(({ word }) => IS_NAME.test(word));
}

async function environmentNames(env: NodeJS.ProcessEnv): Promise<readonly Candidate[]> {
  const { readEnvironments } = await import('./environments/environments-file.ts');
  const { codexEnvironments } = await import('./environments/codex-environments.ts');
  const own = await readEnvironments(env).catch(() => ({ environments: [] }));
  const ofCodex = await codexEnvironments(env).catch(() => []);
  const named = own.environments.map(({ id, url }) => ({ word: id, description: url }));
  const others = ofCodex.map(({ id, address }) => ({ word: id, description: address }));
  return [{ word: 'local', description: 'The private server of this machine' }, ...named, ...others];
}

/** The first sentence, on one line. */
function shortened(description: string): string {
  const [sentence = ''] = description.split(/(?<=\.) |\n/);
  return sentence.length > MAX_DESCRIPTION ? `${sentence.slice(0, MAX_DESCRIPTION - 1)}…` : sentence;
}

/** Fits a terminal of 80 columns beside the word. */
const MAX_DESCRIPTION = 60;
