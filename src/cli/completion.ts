import { constants } from 'node:os';
import type { CommandSpec, FlagSpec } from './command-spec.ts';
import { COMMANDS, findCommand } from './commands.ts';
import { parseFlags } from './flags.ts';

/** What may stand at the cursor. */
interface Candidates {
  readonly words: readonly Candidate[];
  /** Whether the shell completes paths too. */
  readonly paths: 'none' | 'files' | 'directories';
}

export interface Candidate {
  readonly word: string;
  readonly description: string;
}

/**
 * Finds names that the command line does not contain, by the word for them in a spec: ENV, PROCESS, RUNNING, ENDED, RECORDING. `typed`
 * are the flags that have been typed.
 */
export type NameSource = (kind: string, typed: TypedFlags) => Promise<readonly Candidate[]>;

/** The flags of a command that say which server to ask. */
export interface TypedFlags {
  readonly environment?: string;
  readonly 'token-file'?: string;
}

/**
 * Returns the candidates for the last of `words`, which may be empty. `words` are what stands on the command line after the name of the
 * program, up to the cursor. A candidate for `--flag=value` contains the flag.
 */
export async function candidatesFor(words: readonly string[], names: NameSource): Promise<Candidates> {
  const current = words.at(-1) ?? '';
  const earlier = words.slice(0, -1);
  const [first, ...rest] = earlier;
  const named = first === undefined ? undefined : findCommand(first);
  if (first === undefined && !current.startsWith('-')) return matching(current, commandWords());
  if (named === undefined && first !== undefined && !first.startsWith('-')) return NOTHING;
  const spec = await (named ?? findCommand('serve')!).spec();
  return matching(
    current,
    await argumentCandidates(spec, named === undefined ? earlier : rest, current, names),
  );
}

const NOTHING: Candidates = { words: [], paths: 'none' };

function commandWords(): Candidates {
  return {
    words: COMMANDS.map(({ name, summary }) => ({ word: name, description: summary })),
    paths: 'none',
  };
}

/** The candidates for an argument of a command, of which `before` has been typed. */
async function argumentCandidates(
  spec: CommandSpec,
  before: readonly string[],
  current: string,
  names: NameSource,
): Promise<Candidates> {
  const namesOf = (kind: string) => names(kind, typedFlags(spec, before));
  const inline = /^(--[^=]+)=/.exec(current)?.[1];
  if (inline !== undefined) {
    const values = await valuesOf(findFlag(spec, inline)?.value, namesOf);
    const words = values.words.map(({ word, description }) => ({ word: `${inline}=${word}`, description }));
    return { words, paths: values.paths };
  }
  const flag = findFlag(spec, before.at(-1) ?? '');
  if (flag?.type === 'string') return valuesOf(flag.value, namesOf);
  if (current.startsWith('-')) return { words: flagWords(spec), paths: 'none' };
  if (spec.verbs !== undefined && !hasOperand(spec, before)) {
    const words = Object.entries(spec.verbs).map(([word, description]) => ({ word, description }));
    return { words, paths: 'none' };
  }
  const operands = await valuesOf(spec.operand, namesOf);
  const isPathThere = operands.words.some(({ word }) => word.endsWith(':') && current.startsWith(word));
  // The shell does not know the paths of another machine.
  return isPathThere && !operands.words.some(({ word }) => word === current) ? NOTHING : operands;
}

/** Whether an argument that is neither a flag nor its value has been typed. */
function hasOperand(spec: CommandSpec, before: readonly string[]): boolean {
  return before.some(
    (word, index) => !word.startsWith('-') && findFlag(spec, before[index - 1] ?? '')?.type !== 'string',
  );
}

function findFlag(spec: CommandSpec, text: string): FlagSpec | undefined {
  return Object.entries(spec.flags).find(
    ([name, { short }]) => text === `--${name}` || text === `-${short}`,
  )?.[1];
}

function flagWords({ flags }: CommandSpec): Candidate[] {
  return Object.entries(flags).map(([name, { description }]) => ({ word: `--${name}`, description }));
}

/** The flags before the cursor. None while the command line is not valid. */
function typedFlags({ flags }: CommandSpec, before: readonly string[]): TypedFlags {
  try {
    return parseFlags(null, before, flags, 'files').flags as TypedFlags;
  } catch {
    return {};
  }
}

async function valuesOf(
  value: string | undefined,
  names: (kind: string) => Promise<readonly Candidate[]>,
): Promise<Candidates> {
  if (value === undefined) return NOTHING;
  if (value.startsWith('FILE')) return { words: [], paths: 'files' };
  if (value === 'ENV:PATH') {
    const environments = await names('ENV');
    const words = environments.map(({ word, description }) => ({ word: `${word}:`, description }));
    return { words, paths: 'files' };
  }
  if (value === 'DIRECTORY') return { words: [], paths: 'directories' };
  if (value === 'COMMAND') return commandWords();
  if (value === 'MODE|FILE') return { words: wordsOf(SANDBOX_MODES), paths: 'files' };
  if (value === 'SIGNAL') return { words: wordsOf(SIGNALS), paths: 'none' };
  if (/^[a-z0-9|-]+$/.test(value)) {
    return { words: wordsOf(value.split('|')), paths: 'none' };
  }
  return { words: await names(value), paths: value === 'RECORDING' ? 'files' : 'none' };
}

const SANDBOX_MODES = ['read-only', 'workspace-write'];
const SIGNALS = Object.keys(constants.signals).map((name) => name.slice('SIG'.length));

function wordsOf(words: readonly string[]): readonly Candidate[] {
  return words.map((word) => ({ word, description: '' }));
}

function matching(current: string, { words, paths }: Candidates): Candidates {
  return { words: words.filter(({ word }) => word.startsWith(current)), paths };
}
