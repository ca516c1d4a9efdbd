import { type ListenAddress, ListenUrlError, parseListenUrl } from '../listener/listen-url.ts';
import { DEFAULT_CONFIG } from '../server/config/config.ts';
import {
  type ConfigSource,
  describeSource,
  inspectConfig,
  type ResolvedConfig,
} from '../server/config/resolve.ts';
import { readConfigFile } from './config-file.ts';
import { RunError, UsageError } from './failures.ts';
import type { ServerArguments, TransportName } from './server-arguments.ts';

/** A configuration ready to be served or shown. */
export interface Settings extends ResolvedConfig {
  /** The parsed form of `config.listen`. */
  readonly address: ListenAddress;
  /** The TOML file that was read, if any. */
  readonly file: string | null;
}

/** Settings, and everything that keeps a server from using them. */
interface InspectedSettings extends Settings {
  readonly problems: readonly Error[];
}

type Environment = Readonly<Record<string, string | undefined>>;

/** Gathers settings like {@link inspectSettings}. Throws the first problem. */
export async function loadSettings(args: ServerArguments, env: Environment): Promise<Settings> {
  const { problems, ...settings } = await inspectSettings(args, env);
  if (problems[0] !== undefined) throw problems[0];
  return settings;
}

/** Gathers settings from the command line, the environment and the TOML file, and checks the listen URL. */
export async function inspectSettings(args: ServerArguments, env: Environment): Promise<InspectedSettings> {
  const toml = await readConfigFile(args.configFile, env);
  const { problems, ...resolved } = withPort(
    inspectConfig({ flags: args.settings, overrides: args.overrides, env, toml }),
    args.port,
  );
  const address = parseListen(resolved);
  if (address instanceof RunError) {
    // It has no address, but everything else can be shown.
    const shown: Settings = { ...resolved, address: { kind: 'off' }, file: toml?.path ?? null };
    return { ...shown, problems: [...problems, address] };
  }
  const settings = { ...resolved, address, file: toml?.path ?? null };
  return { ...withForms(settings, args), problems };
}

/** Applies the flags that choose a listener without a URL. */
function withForms(settings: Settings, { transport, remote }: ServerArguments): Settings {
  if (transport !== null) return withTransport(settings, transport);
  return remote !== null && settings.sources.listen.source === 'default'
    ? { ...withListen(settings, 'off', FROM_REMOTE), address: { kind: 'off' } }
    : settings;
}

/** A port alone, from --port or as the value of `listen`, is one of this machine; with TLS where there is a certificate. */
function withPort<T extends ResolvedConfig>(resolved: T, port: number | null): T {
  const { listen, tlsCert } = resolved.config;
  const number = port ?? (/^\d{1,5}$/.test(listen) ? listen : null);
  if (number === null) return resolved;
  const source: ConfigSource = port === null ? resolved.sources.listen : { source: 'flag', detail: '--port' };
  return withListen(resolved, `${tlsCert === '' ? 'ws' : 'wss'}://127.0.0.1:${number}`, source);
}

function parseListen({ config, sources }: ResolvedConfig): ListenAddress | RunError {
  try {
    return parseListenUrl(config.listen);
  } catch (error) {
    if (!(error instanceof ListenUrlError)) throw error;
    const origin = sources.listen.source === 'flag' ? '' : ` (${describeSource(sources.listen)})`;
    return new RunError(`${error.message}${origin}`);
  }
}

/** Applies `--transport`: it must agree with `--listen` and otherwise overrides a listener of another kind. */
function withTransport(settings: Settings, transport: TransportName): Settings {
  const wanted = transport === 'ws' ? 'websocket' : transport;
  if (settings.address.kind === wanted) return settings;
  if (settings.sources.listen.source === 'flag') {
    throw new UsageError(
      `--transport ${transport} contradicts --listen ${settings.config.listen}; give only one of them`,
    );
  }
  const listen = transport === 'ws' ? DEFAULT_CONFIG.listen : transport;
  const changed = withListen(settings, listen, { source: 'flag', detail: `--transport ${transport}` });
  return { ...changed, address: parseListenUrl(listen) };
}

const FROM_REMOTE: ConfigSource = { source: 'flag', detail: '--remote' };

function withListen<T extends ResolvedConfig>(resolved: T, listen: string, source: ConfigSource): T {
  const config = Object.freeze({ ...resolved.config, listen });
  return { ...resolved, config, sources: { ...resolved.sources, listen: source } };
}
