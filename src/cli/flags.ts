import { parseArgs } from 'node:util';
import { suggestionFor } from '../base/suggestion.ts';
import { quoteValue } from '../server/config/values.ts';
import { UsageError } from './failures.ts';

/** A flag that a command takes, by its name without dashes. */
export interface Flag {
  readonly type: 'string' | 'boolean';
  readonly short?: string;
  /** A boolean that also takes `=true` or `=false`. */
  readonly takesValue?: boolean;
  /** A boolean that makes the rest of the command line irrelevant, such as --help. */
  readonly final?: boolean;
  /** A string that may be given several times. Its value is the list. */
  readonly multiple?: true;
  /** The flag that this one contradicts, when both set the same thing: --no-x and --x. */
  readonly sameAs?: string;
}

export type Flags = Readonly<Record<string, Flag>>;

/** The flags that were given, in the types that `Known` says. */
export type GivenFlags<Known extends Flags> = {
  readonly [Name in keyof Known]?: Known[Name] extends { readonly type: 'boolean' }
    ? Known[Name] extends { readonly takesValue: true }
      ? boolean | string
      : boolean
    : Known[Name] extends { readonly multiple: true }
      ? readonly string[]
      : string;
};

/** Where the arguments that are no flags may be. */
type OperandPlace =
  /** Between flags. What follows `--` is no flag. */
  | 'anywhere'
  /** The same for names of files and programs, where `-` is an operand. */
  | 'files'
  /** After the flags: the first one, or `--`, begins the command line of another program, whose flags are its own. */
  | 'program';

/**
 * Parses the arguments of `command` (null for the program itself). A value is the next argument or follows `=`; a value that begins
 * with two dashes must follow `=`. Throws UsageError at the first argument that it does not understand.
 */
export function parseFlags<Known extends Flags>(
  command: string | null,
  args: readonly string[],
  known: Known,
  operands: OperandPlace = 'anywhere',
): { readonly flags: GivenFlags<Known>; readonly positionals: readonly string[] } {
  const refuse = (problem: string) => new UsageError(problem, command);
  const flags: Record<string, string | boolean | readonly string[]> = {};
  const positionals: string[] = [];
  const seen = new Set<string>();
  for (const token of tokensOf(args, known)) {
    if (token.kind === 'positional') {
      if (operands === 'program')
        return { flags: flags as GivenFlags<Known>, positionals: args.slice(token.index) };
      if (token.value === '-' && operands === 'anywhere') throw refuse(unknownFlag('-', known, command));
      positionals.push(token.value);
      continue;
    }
    if (token.kind === 'option-terminator') {
      if (operands !== 'program') continue;
      return { flags: flags as GivenFlags<Known>, positionals: args.slice(token.index + 1) };
    }
    const { name, rawName, value, inlineValue } = token;
    const flag = Object.hasOwn(known, name) ? known[name]! : null;
    if (flag === null) throw refuse(unknownFlag(rawName, known, command));
    const target = flag.sameAs ?? name;
    if (seen.has(target) && !flag.multiple) throw refuse(`--${target} is given more than once`);
    seen.add(target);
    if (flag.type === 'string') {
      if (value === undefined || (!inlineValue && value.startsWith('--'))) {
        throw refuse(`${rawName} needs a value`);
      }
      flags[name] = flag.multiple ? [...((flags[name] as string[] | undefined) ?? []), value] : value;
    } else {
      if (value !== undefined && !flag.takesValue) throw refuse(`${rawName} takes no value`);
      flags[name] = value ?? true;
    }
    if (flag.final) return { flags: { [name]: true } as GivenFlags<Known>, positionals };
  }
  return { flags: flags as GivenFlags<Known>, positionals };
}

function tokensOf(args: readonly string[], known: Flags) {
  // Not strict: its error texts cannot be changed, and it refuses negative numbers as values.
  return parseArgs({ args: [...args], options: known, strict: false, tokens: true }).tokens;
}

/** The arguments before `--`. */
export function beforeDashes(args: readonly string[]): readonly string[] {
  const end = args.indexOf('--');
  return end === -1 ? args : args.slice(0, end);
}

/** The indexes of the arguments that are flags, known or not, and neither values of flags nor operands. */
export function indexesOfFlags(args: readonly string[], known: Flags): ReadonlySet<number> {
  return new Set(tokensOf(args, known).flatMap(({ kind, index }) => (kind === 'option' ? [index] : [])));
}

/** The arguments before the command line of another program. */
export function beforeProgram(args: readonly string[], known: Flags): readonly string[] {
  const tokens = tokensOf(args, known);
  const program = tokens.find(({ kind }) => kind !== 'option');
  return args.slice(0, program?.index ?? args.length);
}

/** The same for a command without positional arguments. */
export function parseOnlyFlags<Known extends Flags>(
  command: string,
  args: readonly string[],
  known: Known,
): GivenFlags<Known> {
  const { flags, positionals } = parseFlags(command, args, known);
  const [unexpected] = positionals;
  if (unexpected !== undefined && flags.help !== true) {
    throw new UsageError(`unexpected argument ${quoteValue(unexpected)}`, command);
  }
  return flags;
}

function unknownFlag(given: string, known: Flags, command: string | null): string {
  const names = Object.keys(known).map((name) => `--${name}`);
  const shorts = Object.values(known).map(({ short }) => `-${short}`);
  const otherCase = shorts.find((short) => short.toLowerCase() === given.toLowerCase());
  const similar = otherCase === undefined ? suggestionFor(given, names) : `did you mean '${otherCase}'?`;
  const advice = similar ?? `'exec-server ${command ?? 'serve'} --help' lists them`;
  return `unknown flag ${quoteValue(given)}; ${advice}`;
}
