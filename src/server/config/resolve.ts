import { suggestionFor } from '../../base/suggestion.ts';
import { StartError } from '../../listener/start-error.ts';
import type { ConfigKey, ConfigOption, ExecServerConfig, ServerSettings } from './config.ts';
import { CONFIG_OPTIONS, DEFAULT_CONFIG } from './config.ts';
import {
  type ConfigValue,
  ConfigValueError,
  describeAllowed,
  formatConfigValue,
  parseConfigValue,
  quoteValue,
} from './values.ts';

/** Where a value comes from, and its name there: a flag, a variable or a file path; empty for values of a program and defaults. */
export interface ConfigSource {
  readonly source: 'program' | 'flag' | 'environment' | 'file' | 'default';
  readonly detail: string;
}

/**
 * The sources of a configuration. `program` holds what a program passes to the library. `flags` and `overrides` hold the command line's
 * values by key; `overrides` those of `-c KEY=VALUE`.
 */
export interface ConfigInputs {
  readonly program?: ServerSettings;
  readonly flags: Readonly<Partial<Record<ConfigKey, string | boolean>>>;
  readonly overrides: Readonly<Partial<Record<ConfigKey, string>>>;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly toml: { readonly path: string; readonly values: Readonly<Record<string, unknown>> } | null;
}

/** A complete configuration and the source of each value. */
export interface ResolvedConfig {
  readonly config: ExecServerConfig;
  readonly sources: Readonly<Record<ConfigKey, ConfigSource>>;
  /** Variables with our prefix that are not ours, and resemble none that is. They have no effect. */
  readonly unknownVariables: readonly string[];
}

/** A configuration with everything that is wrong with it. A setting with an invalid value has that of the next source. */
interface InspectedConfig extends ResolvedConfig {
  readonly problems: readonly ConfigError[];
}

/** An invalid value or an unknown name. `message` is one line with the source and the allowed values. */
export class ConfigError extends StartError {
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
const OTHER_VARIABLES: readonly string[] = [
  'EXEC_SERVER_CONFIG',
  'EXEC_SERVER_URL',
  'EXEC_SERVER_TOKEN',
  'EXEC_SERVER_API_KEY',
  'EXEC_SERVER_REFERENCE',
  'EXEC_SERVER_RELAY_STORE',
];

/**
 * Completes and checks the settings that a program passes to the library. A value that equals its default is not checked: the
 * defaults of a server in memory exceed the bounds. Throws ConfigError for an unknown name or an invalid value.
 */
export function configOf(settings: ServerSettings, defaults = DEFAULT_CONFIG): ExecServerConfig {
  if (typeof settings !== 'object' || settings === null || Array.isArray(settings)) {
    throw new ConfigError(
      '',
      PROGRAM,
      `the settings of a server are ${quoteValue(settings)}; pass an object`,
    );
  }
  return resolveConfig({ program: settings, flags: {}, overrides: {}, env: {}, toml: null }, defaults).config;
}

const PROGRAM: ConfigSource = { source: 'program', detail: '' };

/** Merges the sources like {@link inspectConfig}. Throws the first problem. */
export function resolveConfig(inputs: ConfigInputs, defaults = DEFAULT_CONFIG): ResolvedConfig {
  const { problems, ...resolved } = inspectConfig(inputs, defaults);
  if (problems[0] !== undefined) throw problems[0];
  return resolved;
}

/**
 * Merges the sources: program before flag before environment before TOML file before default. An unknown name or an invalid value is a
 * problem even if another source overrides it: otherwise the error would surface only when the override is removed. An empty
 * variable counts as not set.
 */
export function inspectConfig(inputs: ConfigInputs, defaults = DEFAULT_CONFIG): InspectedConfig {
  const { problems, unknownVariables } = findUnknownNames(inputs);
  const config: Partial<Record<ConfigKey, ConfigValue>> = {};
  const sources: Partial<Record<ConfigKey, ConfigSource>> = {};
  for (const option of CONFIG_OPTIONS) {
    config[option.key] = defaults[option.key];
    sources[option.key] = { source: 'default', detail: '' };
    for (const { raw, source } of candidates(option, inputs)) {
      if (source === PROGRAM && raw === defaults[option.key]) continue;
      const value = parseFrom(option, raw, source);
      if (value instanceof ConfigError) {
        problems.push(value);
        continue;
      }
      config[option.key] = value;
      sources[option.key] = source;
    }
  }
  raiseUnfinishedBytes(config, sources);
  const resolved = { config: Object.freeze(config), sources, unknownVariables } as unknown as ResolvedConfig;
  const contradiction = findContradiction(resolved);
  if (contradiction !== null) problems.push(contradiction);
  return { ...resolved, problems };
}

/** The values given for one option, weakest source first. */
function candidates(option: ConfigOption, inputs: ConfigInputs): { raw: unknown; source: ConfigSource }[] {
  const found: { raw: unknown; source: ConfigSource }[] = [];
  const { program, flags, overrides, env, toml } = inputs;
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
  const given = program?.[option.key];
  if (given !== undefined) found.push({ raw: given, source: PROGRAM });
  return found;
}

function parseFrom(option: ConfigOption, raw: unknown, source: ConfigSource): ConfigValue | ConfigError {
  try {
    return parseConfigValue(option, raw);
  } catch (error) {
    if (!(error instanceof ConfigValueError)) throw error;
    const problem = `${nameIn(source, option.key)}: ${quoteValue(raw)} ${error.message}`;
    return new ConfigError(option.key, source, `${problem}; allowed: ${describeAllowed(option)}`);
  }
}

/**
 * Other programs share the prefix of our variables, so one that resembles none of ours is only reported. One that does is a misspelt
 * setting.
 */
function findUnknownNames({ program, env, toml }: ConfigInputs): {
  readonly problems: ConfigError[];
  readonly unknownVariables: readonly string[];
} {
  const problems = unknownSettings(program ?? {}, PROGRAM);
  if (toml !== null) problems.push(...unknownSettings(toml.values, { source: 'file', detail: toml.path }));
  const unknownVariables: string[] = [];
  for (const name of Object.keys(env)) {
    if (!name.startsWith('EXEC_SERVER_') || env[name] === undefined) continue;
    const known = [...CONFIG_OPTIONS.map((option) => option.env), ...OTHER_VARIABLES];
    if (known.includes(name) || isOfKubernetes(name, env[name])) continue;
    const advice = name === PORT_VARIABLE ? 'write EXEC_SERVER_LISTEN=PORT' : suggestionFor(name, known);
    if (advice === null) unknownVariables.push(name);
    else {
      const source: ConfigSource = { source: 'environment', detail: name };
      const message = `unknown variable ${quoteValue(name)} in the environment; ${advice}`;
      problems.push(new ConfigError(name, source, message));
    }
  }
  return { problems, unknownVariables };
}

const PORT_VARIABLE = 'EXEC_SERVER_PORT';

/**
 * Kubernetes sets variables about each Service in every container of its namespace. Those of a Service named `exec-server`, or
 * `exec-server-…`, begin like ours. https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables
 */
function isOfKubernetes(name: string, value: string): boolean {
  if (/_SERVICE_(?:HOST|PORT(?:_[A-Z0-9_]+)?)$|_PORT_\d+_(?:TCP|UDP|SCTP)_(?:PROTO|PORT|ADDR)$/.test(name)) {
    return true;
  }
  return /_PORT(?:_\d+_(?:TCP|UDP|SCTP))?$/.test(name) && /^(?:tcp|udp|sctp):\/\//.test(value);
}

function unknownSettings(values: object, source: ConfigSource): ConfigError[] {
  const known = Object.keys(DEFAULT_CONFIG);
  return Object.keys(values)
    .filter((name) => !Object.hasOwn(DEFAULT_CONFIG, name))
    .map((name) => {
      const advice = suggestionFor(name, known) ?? "'exec-server config' lists the valid ones";
      return new ConfigError(name, source, `unknown setting ${nameIn(source, quoteValue(name))}; ${advice}`);
    });
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
function findContradiction({ config, sources }: ResolvedConfig): ConfigError | null {
  const { pingIntervalMs, peerSilenceTimeoutMs } = config;
  if (peerSilenceTimeoutMs > pingIntervalMs) return null;
  const [timeout, interval] = (['peerSilenceTimeoutMs', 'pingIntervalMs'] as const).map((key) => {
    const option = CONFIG_OPTIONS.find((candidate) => candidate.key === key)!;
    return `${nameIn(sources[key], key)}: '${formatConfigValue(option, config[key])}'`;
  });
  return new ConfigError(
    'peerSilenceTimeoutMs',
    sources.peerSilenceTimeoutMs,
    `${timeout} must be longer than ${interval}; otherwise idle peers are dropped before they are pinged`,
  );
}

/** A name with its source, except in a program: it knows where it has set it. */
function nameIn(source: ConfigSource, name: string): string {
  return source === PROGRAM ? name : `${name} (${describeSource(source)})`;
}

/** Writes a source as `flag --listen`, `environment EXEC_SERVER_LISTEN`, `file /etc/x.toml` or `default`. */
export function describeSource({ source, detail }: ConfigSource): string {
  return detail === '' ? source : `${source} ${detail}`;
}
