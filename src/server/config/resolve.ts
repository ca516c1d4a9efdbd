import type { ConfigKey, ConfigOption } from './config.ts';
import { CONFIG_OPTIONS, DEFAULT_CONFIG, type ExecServerConfig } from './config.ts';
import { suggestionFor } from './suggestion.ts';
import {
  type ConfigValue,
  ConfigValueError,
  describeAllowed,
  formatConfigValue,
  parseConfigValue,
  quoteValue,
} from './values.ts';

/** Where a value comes from, and its name there: a flag, a variable or a file path; empty for defaults. */
export interface ConfigSource {
  readonly source: 'flag' | 'environment' | 'file' | 'default';
  readonly detail: string;
}

/** The sources of a configuration. `flags` and `overrides` hold the command line's values by key; `overrides` those of `-c KEY=VALUE`. */
export interface ConfigInputs {
  readonly flags: Readonly<Partial<Record<ConfigKey, string | boolean>>>;
  readonly overrides: Readonly<Partial<Record<ConfigKey, string>>>;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly toml: { readonly path: string; readonly values: Readonly<Record<string, unknown>> } | null;
}

/** A complete configuration and the source of each value. */
export interface ResolvedConfig {
  readonly config: ExecServerConfig;
  readonly sources: Readonly<Record<ConfigKey, ConfigSource>>;
}

/** An invalid value or an unknown name. `message` is one line with the source and the allowed values. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  /** The key, or the unknown name as written. */
  readonly key: string;
  readonly source: ConfigSource;

  constructor(key: string, source: ConfigSource, message: string) {
    super(message);
    this.key = key;
    this.source = source;
  }
}

/** Variables with our prefix that are not settings. */
export const OTHER_VARIABLES: readonly string[] = [
  'EXEC_SERVER_CONFIG',
  'EXEC_SERVER_URL',
  'EXEC_SERVER_API_KEY',
  'EXEC_SERVER_REFERENCE',
  'EXEC_SERVER_RELAY_STORE',
];

/**
 * Merges the sources: flag before environment before TOML file before default.
 * Throws ConfigError for the first unknown name or invalid value, even if another source overrides it: otherwise the error would
 * surface only when the override is removed. An empty variable counts as not set.
 */
export function resolveConfig(inputs: ConfigInputs): ResolvedConfig {
  rejectUnknownNames(inputs);
  const config: Partial<Record<ConfigKey, ConfigValue>> = {};
  const sources: Partial<Record<ConfigKey, ConfigSource>> = {};
  for (const option of CONFIG_OPTIONS) {
    config[option.key] = DEFAULT_CONFIG[option.key];
    sources[option.key] = { source: 'default', detail: '' };
    for (const { raw, source } of candidates(option, inputs)) {
      config[option.key] = parseFrom(option, raw, source);
      sources[option.key] = source;
    }
  }
  raiseUnfinishedBytes(config, sources);
  const resolved = { config: Object.freeze(config), sources } as unknown as ResolvedConfig;
  rejectContradictions(resolved);
  return resolved;
}

/** The values given for one option, weakest source first. */
function candidates(option: ConfigOption, inputs: ConfigInputs): { raw: unknown; source: ConfigSource }[] {
  const found: { raw: unknown; source: ConfigSource }[] = [];
  const { flags, overrides, env, toml } = inputs;
  if (toml !== null && Object.hasOwn(toml.values, option.key)) {
    found.push({ raw: toml.values[option.key], source: { source: 'file', detail: toml.path } });
  }
  if (env[option.env]) {
    found.push({ raw: env[option.env], source: { source: 'environment', detail: option.env } });
  }
  const override = overrides[option.key];
  if (override !== undefined) {
    found.push({ raw: override, source: { source: 'flag', detail: `-c ${option.key}` } });
  }
  const flag = flags[option.key];
  if (flag !== undefined) {
    const detail = flag === false ? option.flag.replace('--', '--no-') : option.flag;
    found.push({ raw: flag, source: { source: 'flag', detail } });
  }
  return found;
}

function parseFrom(option: ConfigOption, raw: unknown, source: ConfigSource): ConfigValue {
  try {
    return parseConfigValue(option, raw);
  } catch (error) {
    if (!(error instanceof ConfigValueError)) throw error;
    const problem = `${option.key} (${describeSource(source)}): ${quoteValue(raw)} ${error.message}`;
    throw new ConfigError(option.key, source, `${problem}; allowed: ${describeAllowed(option)}`);
  }
}

function rejectUnknownNames({ env, toml }: ConfigInputs): void {
  const keys = CONFIG_OPTIONS.map((option) => option.key);
  for (const name of Object.keys(toml?.values ?? {})) {
    if ((keys as string[]).includes(name)) continue;
    const source: ConfigSource = { source: 'file', detail: toml!.path };
    throw unknownName('setting', name, source, keys);
  }
  const variables = [...CONFIG_OPTIONS.map((option) => option.env), ...OTHER_VARIABLES];
  for (const name of Object.keys(env)) {
    if (!name.startsWith('EXEC_SERVER_') || variables.includes(name) || env[name] === undefined) continue;
    throw unknownName('variable', name, { source: 'environment', detail: name }, variables);
  }
}

function unknownName(
  what: string,
  name: string,
  source: ConfigSource,
  known: readonly string[],
): ConfigError {
  const where = source.source === 'file' ? ` (${describeSource(source)})` : ' in the environment';
  const advice = suggestionFor(name, known) ?? "'exec-server config' lists the valid ones";
  return new ConfigError(name, source, `unknown ${what} ${quoteValue(name)}${where}; ${advice}`);
}

/** A server needs memory for one message of any allowed size. The configuration has the value that is used. */
function raiseUnfinishedBytes(
  config: Partial<Record<ConfigKey, ConfigValue>>,
  sources: Partial<Record<ConfigKey, ConfigSource>>,
): void {
  const least = config.maxMessageBytes as number;
  if ((config.maxUnfinishedBytes as number) >= least) return;
  const { source, detail } = sources.maxUnfinishedBytes!;
  config.maxUnfinishedBytes = least;
  sources.maxUnfinishedBytes = { source, detail: `${detail}, raised to maxMessageBytes` };
}

/** An idle peer sends nothing but pongs, so a timeout shorter than the ping interval would drop every idle peer. */
function rejectContradictions({ config, sources }: ResolvedConfig): void {
  const { pingIntervalMs, peerSilenceTimeoutMs } = config;
  if (peerSilenceTimeoutMs > pingIntervalMs) return;
  const [timeout, interval] = (['peerSilenceTimeoutMs', 'pingIntervalMs'] as const).map((key) => {
    const option = CONFIG_OPTIONS.find((candidate) => candidate.key === key)!;
    return `${key} (${describeSource(sources[key])}): '${formatConfigValue(option, config[key])}'`;
  });
  throw new ConfigError(
    'peerSilenceTimeoutMs',
    sources.peerSilenceTimeoutMs,
    `${timeout} must be longer than ${interval}; otherwise idle peers are dropped before they are pinged`,
  );
}

/** Writes a source as `flag --listen`, `environment EXEC_SERVER_LISTEN`, `file /etc/x.toml` or `default`. */
export function describeSource({ source, detail }: ConfigSource): string {
  return detail === '' ? source : `${source} ${detail}`;
}
