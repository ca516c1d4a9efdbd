import type { ConfigKey } from '../server/config/option-spec.ts';
import { CONFIG_OPTIONS } from '../server/config/options.ts';
import { suggestionFor } from '../server/config/suggestion.ts';
import { quoteValue } from '../server/config/values.ts';
import { UsageError } from './failures.ts';

/** What a command line asks for. Values of settings are still text; `resolveConfig` parses them. */
export interface Arguments {
  readonly command: Command;
  readonly settings: Readonly<Partial<Record<ConfigKey, string | boolean>>>;
  readonly transport: Transport | null;
  readonly configFile: string | null;
  readonly urlFile: string | null;
  readonly pidFile: string | null;
  /** The registry of an executor. */
  readonly remote: string | null;
  readonly name: string | null;
  readonly executorCredentialStdin: boolean;
  readonly exitOnStdinClose: boolean;
  readonly json: boolean;
}

/** What to do: `help` and `version` come from flags, the others are commands. */
export type Command = 'serve' | 'config' | 'help' | 'version';

/** A short name for a kind of listener. */
export type Transport = 'ws' | 'stdio' | 'off';

/**
 * Reads a command line (without node and script). Throws UsageError at the first thing it does not understand;
 * help and version win over whatever follows them.
 * A value is the next argument or follows `=`; one that begins with two dashes must follow `=`.
 */
export function parseArguments(argv: readonly string[]): Arguments {
  const settings: Partial<Record<ConfigKey, string | boolean>> = {};
  const given = new Map<string, string | boolean>();
  let command: Command | null = null;

  for (let index = 0; index < argv.length; index++) {
    const argument = argv[index]!;
    if (argument === '-h' || argument === '--help') return parsed('help', {}, new Map());
    if (argument === '-V' || argument === '--version') return parsed('version', {}, new Map());
    if (!argument.startsWith('-')) {
      if (command !== null) throw new UsageError(`unexpected argument ${quoteValue(argument)}`);
      command = asCommand(argument);
      continue;
    }

    const equals = argument.indexOf('=');
    const name = equals === -1 ? argument : argument.slice(0, equals);
    const flag = FLAGS.get(name);
    if (flag === undefined) throw unknownFlag(name);
    if (given.has(flag.name)) throw new UsageError(`${flag.name} is given more than once`);

    let value: string | boolean = equals === -1 ? true : argument.slice(equals + 1);
    if (flag.value === 'none' && value !== true) throw new UsageError(`${name} takes no value`);
    if (flag.value === 'required' && value === true) value = valueAfter(name, argv[++index]);
    if (flag.negates) value = false;
    given.set(flag.name, value);
    if (flag.setting !== null) settings[flag.setting] = value;
  }
  return parsed(command ?? 'serve', settings, given);
}

interface Flag {
  /** The canonical name; `--no-x` and `--x` share it, so that giving both is noticed. */
  readonly name: string;
  readonly value: 'required' | 'optional' | 'none';
  readonly negates: boolean;
  readonly setting: ConfigKey | null;
}

const FLAGS: ReadonlyMap<string, Flag> = new Map([
  ...CONFIG_OPTIONS.flatMap(({ key, flag: name, type }): [string, Flag][] =>
    type === 'boolean'
      ? [
          [name, { name, value: 'optional', negates: false, setting: key }],
          [name.replace('--', '--no-'), { name, value: 'none', negates: true, setting: key }],
        ]
      : [[name, { name, value: 'required', negates: false, setting: key }]],
  ),
  ...['--config', '--transport', '--url-file', '--pid-file', '--remote', '--name'].map(
    (name): [string, Flag] => [name, { name, value: 'required', negates: false, setting: null }],
  ),
  ...['--json', '--executor-credential-stdin', '--exit-on-stdin-close'].map((name): [string, Flag] => [
    name,
    { name, value: 'none', negates: false, setting: null },
  ]),
]);

type Given = ReadonlyMap<string, string | boolean>;

const COMMANDS = ['serve', 'config'] as const;
/** Commands with flags of their own; they come first on the command line and are read elsewhere. */
const TOOLS = ['token', 'audit', 'doctor', 'relay', 'forward'] as const;
const TRANSPORTS = ['ws', 'stdio', 'off'] as const;

function parsed(command: Command, settings: Arguments['settings'], given: Given): Arguments {
  const json = given.has('--json');
  for (const name of ['--name', '--executor-credential-stdin']) {
    if (given.has(name) && !given.has('--remote')) throw new UsageError(`${name} goes with --remote only`);
  }
  if (json && command === 'serve') throw new UsageError('--json goes with config and doctor only');
  return {
    command,
    settings,
    transport: asTransport(given.get('--transport')),
    configFile: asPath('--config', given),
    urlFile: asPath('--url-file', given),
    pidFile: asPath('--pid-file', given),
    remote: asPath('--remote', given),
    name: asPath('--name', given),
    executorCredentialStdin: given.has('--executor-credential-stdin'),
    exitOnStdinClose: given.has('--exit-on-stdin-close'),
    json,
  };
}

function asCommand(argument: string): Command {
  const command = COMMANDS.find((name) => name === argument);
  if (command !== undefined) return command;
  if (TOOLS.some((name) => name === argument)) throw new UsageError(`${argument} must be the first argument`);
  const names = [...COMMANDS, ...TOOLS];
  const advice = suggestionFor(argument, names) ?? `the commands are ${names.join(', ')}`;
  throw new UsageError(`unknown command ${quoteValue(argument)}; ${advice}`);
}

function asTransport(value: string | boolean | undefined): Transport | null {
  if (value === undefined) return null;
  const transport = TRANSPORTS.find((name) => name === value);
  if (transport !== undefined) return transport;
  throw new UsageError(
    `--transport: ${quoteValue(value)} is not one of the choices; allowed: ${TRANSPORTS.join(', ')}`,
  );
}

function asPath(name: string, given: Given): string | null {
  const value = given.get(name);
  if (value === undefined) return null;
  if (typeof value !== 'string' || value === '') throw new UsageError(`${name} needs a value`);
  return value;
}

function valueAfter(name: string, next: string | undefined): string {
  if (next === undefined || next.startsWith('--')) throw new UsageError(`${name} needs a value`);
  return next;
}

function unknownFlag(name: string): UsageError {
  const advice = suggestionFor(name, [...FLAGS.keys(), '--help', '--version']);
  return new UsageError(`unknown flag ${quoteValue(name)}${advice === null ? '' : `; ${advice}`}`);
}
