import type { AwsSigning } from '../relay/direct/direct-executor.ts';
import { CONFIG_OPTIONS, type ConfigKey } from '../server/config/config.ts';
import { quoteValue } from '../server/config/values.ts';
import { findCommand, unknownCommand } from './commands.ts';
import { UsageError } from './failures.ts';
import { type Flags, parseFlags } from './flags.ts';
import {
  CODEX_FLAGS,
  type CodexFlags,
  codexFlags,
  REMOTE_TRANSPORT_FLAGS,
  signingOf,
} from './reference-flags.ts';

/** The parsed command line of `serve` or `config`. Setting values are still text; `resolveConfig` parses them. */
export interface ServerArguments {
  readonly command: ServerCommand;
  readonly settings: Readonly<Partial<Record<ConfigKey, string | boolean>>>;
  /** Settings of `-c KEY=VALUE`. */
  readonly overrides: CodexFlags['overrides'];
  readonly transport: TransportName | null;
  /** The port of --port, a number from 0 to 65535. */
  readonly port: number | null;
  readonly configFile: string | null;
  /** Values that replace those of codex's config.toml, in TOML. */
  readonly codexConfig: Readonly<Record<string, string>>;
  /** What was accepted and has no effect. */
  readonly warnings: readonly string[];
  readonly urlFile: string | null;
  readonly pidFile: string | null;
  /** The registry of an executor. */
  readonly remote: string | null;
  readonly name: string | null;
  readonly executorCredentialStdin: boolean;
  readonly useAgentIdentityAuth: boolean;
  /** How the direct transport signs its requests; null for the Noise transport. */
  readonly signing: AwsSigning | null;
  readonly exitOnStdinClose: boolean;
  readonly json: boolean;
}

/** What to do: `help` and `version` come from flags, the others are commands. */
type ServerCommand = 'serve' | 'config' | 'help' | 'version';

/** A short name for a kind of listener. */
export type TransportName = (typeof TRANSPORTS)[number];

const TRANSPORTS = ['ws', 'stdio', 'off'] as const;

/**
 * Parses the arguments of `serve` and `config`. Without `command` the first positional argument names the command, and `serve` is
 * the default. Throws UsageError at the first thing that it does not understand; --help and --version win over what follows them.
 */
export function parseServerArguments(
  argv: readonly string[],
  command: 'serve' | 'config' | null = null,
): ServerArguments {
  const { flags, positionals } = parseFlags(null, argv, FLAGS);
  if (flags.help) return parsed('help', {});
  if (flags.version) return parsed('version', {});
  const [first, ...rest] = command === null ? positionals : [command, ...positionals];
  const chosen = first === undefined ? 'serve' : asCommand(first);
  if (rest.length > 0) {
    const advice = chosen === 'serve' ? "; a server starts no program itself, 'exec-server run' does" : '';
    throw new UsageError(`unexpected argument ${quoteValue(rest[0])}${advice}`);
  }
  return parsed(chosen, flags);
}

type Given = Readonly<Record<string, string | boolean | readonly string[] | undefined>>;

/** The flags of the settings: one for each, and --no-x for each that can be switched off. */
export const SETTING_FLAGS: Flags = Object.fromEntries(
  CONFIG_OPTIONS.flatMap(({ flag, type }): [string, Flags[string]][] => {
    const name = flag.slice(2);
    if (type !== 'boolean') return [[name, { type: 'string' }]];
    return [
      [name, { type, takesValue: true }],
      [`no-${name}`, { type, sameAs: name }],
    ];
  }),
);

/** The flags of `serve` and `config` that are not settings. */
export const OWN_FLAGS = {
  ...CODEX_FLAGS,
  ...REMOTE_TRANSPORT_FLAGS,
  port: { type: 'string', short: 'p' },
  transport: { type: 'string' },
  'url-file': { type: 'string' },
  'pid-file': { type: 'string' },
  remote: { type: 'string' },
  name: { type: 'string' },
  json: { type: 'boolean' },
  'executor-credential-stdin': { type: 'boolean' },
  'use-agent-identity-auth': { type: 'boolean' },
  'exit-on-stdin-close': { type: 'boolean' },
  help: { type: 'boolean', short: 'h', final: true },
  version: { type: 'boolean', short: 'V', final: true },
} as const satisfies Flags;

const FLAGS: Flags = { ...SETTING_FLAGS, ...OWN_FLAGS };

function parsed(command: ServerCommand, flags: Given): ServerArguments {
  for (const name of ['name', 'executor-credential-stdin', 'use-agent-identity-auth']) {
    if (name in flags && !('remote' in flags)) throw new UsageError(`--${name} needs --remote`);
  }
  rejectTwoCredentials(flags);
  const signing = signingOf(flags);
  const codex = codexFlags(flags);
  const json = flags.json === true;
  if (json && command === 'serve') throw new UsageError('--json is for config and doctor only');
  return {
    command,
    settings: settingsOf(flags, codex),
    overrides: codex.overrides,
    transport: asTransport(flags.transport),
    port: asPort(flags),
    configFile: codex.file,
    codexConfig: codex.signIn,
    warnings: codex.warnings,
    urlFile: asText('url-file', flags),
    pidFile: asText('pid-file', flags),
    remote: asText('remote', flags),
    name: asText('name', flags),
    signing,
    executorCredentialStdin: flags['executor-credential-stdin'] === true,
    useAgentIdentityAuth: flags['use-agent-identity-auth'] === true,
    exitOnStdinClose: flags['exit-on-stdin-close'] === true,
    json,
  };
}

/** Throws UsageError for flags that ask for two kinds of credentials. */
export function rejectTwoCredentials(flags: Given, command: string | null = null): void {
  const names = ['executor-credential-stdin', 'use-agent-identity-auth'];
  if (!names.every((name) => flags[name] === true)) return;
  throw new UsageError(`${names.map((name) => `--${name}`).join(' and ')} cannot be combined`, command);
}

function settingsOf(flags: Given, { overrides }: CodexFlags): ServerArguments['settings'] {
  const settings: Partial<Record<ConfigKey, string | boolean>> = {};
  for (const { key, flag } of CONFIG_OPTIONS) {
    const name = flag.slice(2);
    const given = flags[`no-${name}`] === true ? false : (flags[name] as string | boolean | undefined);
    if (given === undefined) continue;
    if (key in overrides) throw new UsageError(`${flag} contradicts -c ${key}; give only one of them`);
    settings[key] = given;
  }
  return settings;
}

function asCommand(argument: string): 'serve' | 'config' {
  if (argument === 'serve' || argument === 'config') return argument;
  if (findCommand(argument) !== undefined) throw new UsageError(`${argument} must be the first argument`);
  throw unknownCommand(argument);
}

function asTransport(value: Given[string]): TransportName | null {
  if (value === undefined) return null;
  const transport = TRANSPORTS.find((name) => name === value);
  if (transport !== undefined) return transport;
  throw new UsageError(
    `--transport: ${quoteValue(value)} is not one of the choices; allowed: ${TRANSPORTS.join(', ')}`,
  );
}

function asPort(flags: Given): number | null {
  const text = asText('port', flags);
  if (text === null) return null;
  for (const name of ['listen', 'transport']) {
    if (name in flags) throw new UsageError(`--port contradicts --${name}; give only one of them`);
  }
  if (/^\d{1,5}$/.test(text) && Number(text) <= MAX_PORT) return Number(text);
  throw new UsageError(`--port: ${quoteValue(text)} is not a port; allowed: 0 to ${MAX_PORT}`);
}

const MAX_PORT = 65_535;

function asText(name: string, flags: Given): string | null {
  const value = flags[name];
  if (value === undefined) return null;
  if (value === '') throw new UsageError(`--${name} needs a value`);
  return String(value);
}
