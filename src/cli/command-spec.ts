import type { Flag, Flags } from './flags.ts';

/** What help, completion and the man page say about a flag. */
interface FlagDoc {
  /**
   * The name of the value, which also decides how a shell completes it: FILE, DIRECTORY, ENV (an environment), COMMAND, PROCESS (also
   * RUNNING or ENDED, to name only those), RECORDING (also a file), SIGNAL, MODE|FILE (of a sandbox), or the choices themselves, separated
   * by `|`.
   */
  readonly value?: string;
  readonly description: string;
  /** The heading under which help lists it. Default: Options. */
  readonly group?: string;
  /** The default and the variable of a setting, on a line of their own. */
  readonly details?: string;
}

/** A flag that a command takes, with its documentation. */
export type FlagSpec = Flag & FlagDoc;

export type FlagSpecs = Readonly<Record<string, FlagSpec>>;

/** A command line and what it does. */
export interface Example {
  /** Without the name of the program. */
  readonly line: string;
  readonly meaning: string;
}

/** What a command takes. Parsing, help, completion, the man page and docs/cli.md derive from it. */
export interface CommandSpec {
  /** The command lines that it takes, after the name of the command. */
  readonly usage: readonly string[];
  /** Paragraphs, separated by blank lines. */
  readonly description: string;
  readonly flags: FlagSpecs;
  /** The words that may come first, and what they do. */
  readonly verbs?: Readonly<Record<string, string>>;
  /** What the other arguments are, in the words of {@link FlagDoc.value}. Absent when there are none. */
  readonly operand?: string;
  /** Text after the flags, by heading. */
  readonly notes?: Readonly<Record<string, string>>;
  readonly examples: readonly [Example, Example, ...Example[]];
}

/** Adds the documentation of flags to what the parser knows. Each flag must have one. Help lists them in the order of `docs`. */
export function documented<Known extends Flags>(
  known: Known,
  docs: { readonly [Name in keyof Known]: FlagDoc },
): FlagSpecs {
  return Object.fromEntries(
    Object.entries<FlagDoc>(docs).map(([name, doc]) => [name, { ...known[name]!, ...doc }]),
  );
}

/** `-h` and `--help`, which every command takes. */
export const HELP = { type: 'boolean', short: 'h', final: true, description: 'Print this help.' } as const;

/** `--json` of the commands that print a table. */
export const JSON_FLAG = { type: 'boolean', description: 'Print JSON.' } as const;
