import { parseArgs } from 'node:util';
import { UsageError } from './failures.ts';

/** The flags that a command knows: with a value, or without. */
export type KnownFlags = Readonly<
  Record<string, { readonly type: 'string' | 'boolean'; readonly short?: string }>
>;

/** The flags that were given. */
export type GivenFlags<Known extends KnownFlags> = {
  readonly [Name in keyof Known]?: Value<Known[Name]['type']>;
};

type Value<Type> = Type extends 'boolean' ? boolean : string;

/** Reads the flags of a command that has its own. Throws UsageError for any other, for an argument, and for one that is given twice. */
export function parseToolFlags<Known extends KnownFlags>(
  tool: string,
  argv: readonly string[],
  known: Known,
): GivenFlags<Known> {
  const { values, tokens } = parse(tool, argv, known);
  const names = new Set<string>();
  for (const token of tokens) {
    if (token.kind !== 'option') continue;
    if (names.has(token.name)) throw new UsageError(`${tool}: --${token.name} is given more than once`);
    names.add(token.name);
  }
  return values as GivenFlags<Known>;
}

function parse(tool: string, argv: readonly string[], options: KnownFlags) {
  try {
    return parseArgs({ args: [...argv], options, strict: true, tokens: true });
  } catch (error) {
    const [problem] = (error as Error).message.split('. ');
    throw new UsageError(`${tool}: ${problem}; try 'exec-server ${tool} --help'`);
  }
}
