import { type ListenAddress, ListenUrlError, parseListenUrl } from '../listener/listen-url.ts';
import { DEFAULT_CONFIG } from '../server/config/config.ts';
import {
  type ConfigSource,
  describeSource,
  type ResolvedConfig,
  resolveConfig,
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

/** Gathers settings from the command line, the environment and the TOML file, and checks the listen URL. */
export async function loadSettings(
  args: ServerArguments,
  env: Readonly<Record<string, string | undefined>>,
): Promise<Settings> {
  const toml = await readConfigFile(args.configFile, env);
  const resolved = resolveConfig({ flags: args.settings, overrides: args.overrides, env, toml });
  const settings = { ...resolved, address: parseListen(resolved), file: toml?.path ?? null };
  if (args.transport !== null) return withTransport(settings, args.transport);
  return args.remote !== null && resolved.sources.listen.source === 'default'
    ? withListen(settings, 'off', '--remote')
    : settings;
}

function parseListen({ config, sources }: ResolvedConfig): ListenAddress {
  try {
    return parseListenUrl(config.listen);
  } catch (error) {
    if (!(error instanceof ListenUrlError)) throw error;
    const origin = sources.listen.source === 'flag' ? '' : ` (${describeSource(sources.listen)})`;
    throw new RunError(`${error.message}${origin}`);
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
  return withListen(
    settings,
    transport === 'ws' ? DEFAULT_CONFIG.listen : transport,
    `--transport ${transport}`,
  );
}

function withListen(settings: Settings, listen: string, detail: string): Settings {
  const source: ConfigSource = { source: 'flag', detail };
  return {
    ...settings,
    config: Object.freeze({ ...settings.config, listen }),
    sources: { ...settings.sources, listen: source },
    address: parseListenUrl(listen),
  };
}
