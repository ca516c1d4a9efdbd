import { join } from 'node:path';
import { ClientError } from '../../client/errors.ts';
import { codexHome } from '../../relay/sign-in/codex-config.ts';
import {
  type EnvironmentProvider,
  type EnvironmentTransport,
  LOCAL_ENVIRONMENT_ID,
  type ProvidedEnvironments,
} from '../provider.ts';
import { parseEnvironments } from './environments-toml.ts';
import { type RelaySettings, relayTransport } from './relay-transport.ts';
import { readTomlFile } from './toml-file.ts';

/** Where the configuration comes from, and how to connect to an environment behind a relay. */
export interface SourceOptions {
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Default: $CODEX_HOME, else `.codex` in the user's home. */
  readonly codexHome?: string;
  /** Creates the transport to an environment behind a relay, instead of this library's own. */
  readonly relay?: (settings: RelaySettings) => EnvironmentTransport;
}

/** The configured environments and their source. */
export interface DiscoveredEnvironments extends ProvidedEnvironments {
  /** A file path or the name of a variable; null when nothing is configured. */
  readonly source: string | null;
  readonly defaultIsRemote: boolean;
}

/**
 * Reads the configured environments; opens no connection. The first source that is present is used alone: the relay variables,
 * environments.toml, CODEX_EXEC_SERVER_URL, `[exec_server] url` in config.toml. Without any the only environment is this machine.
 */
export async function discoverEnvironments(options: SourceOptions = {}): Promise<DiscoveredEnvironments> {
  const { env = process.env, relay = relayTransport } = options;
  const home = options.codexHome ?? codexHome(env);
  return (
    fromRelayVariables(env, relay) ??
    (await fromEnvironmentsFile(home, relay)) ??
    fromUrl(variable(env, URL_VARIABLE), URL_VARIABLE) ??
    (await fromConfigFile(home)) ??
    discovered(null, { environments: [], default: LOCAL_ENVIRONMENT_ID, includeLocal: true })
  );
}

/** The configured environments as a provider. */
export function configuredEnvironments(options: SourceOptions = {}): EnvironmentProvider {
  return { snapshot: () => discoverEnvironments(options) };
}

const URL_VARIABLE = 'CODEX_EXEC_SERVER_URL';
const RELAY_VARIABLES = {
  registryUrl: 'CODEX_EXEC_SERVER_NOISE_REGISTRY_URL',
  environmentId: 'CODEX_EXEC_SERVER_NOISE_ENVIRONMENT_ID',
  authToken: 'CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN',
} as const;
const RELAY_ACCOUNT_VARIABLE = 'CODEX_EXEC_SERVER_NOISE_CHATGPT_ACCOUNT_ID';

/** The id of the one environment that a variable or config.toml describes. */
const REMOTE_ENVIRONMENT_ID = 'remote';

type Variables = Readonly<Record<string, string | undefined>>;

type Relay = NonNullable<SourceOptions['relay']>;

function fromRelayVariables(env: Variables, relay: Relay): DiscoveredEnvironments | null {
  const registryUrl = variable(env, RELAY_VARIABLES.registryUrl);
  const environmentId = variable(env, RELAY_VARIABLES.environmentId);
  const authToken = variable(env, RELAY_VARIABLES.authToken);
  if (registryUrl === null && environmentId === null && authToken === null) return null;
  if (registryUrl === null || environmentId === null || authToken === null) {
    const names = Object.values(RELAY_VARIABLES);
    const missing = names.filter((name) => variable(env, name) === null).join(' and ');
    throw new ClientError('config', `an environment behind a relay is configured without ${missing}`, {
      hint: `set ${missing}, or none of ${names.join(', ')}`,
    });
  }
  const accountId = variable(env, RELAY_ACCOUNT_VARIABLE);
  const transport = relay({ registryUrl, environmentId, authToken, accountId });
  return onlyRemote(RELAY_VARIABLES.registryUrl, transport);
}

async function fromEnvironmentsFile(home: string, relay: Relay): Promise<DiscoveredEnvironments | null> {
  const path = join(home, 'environments.toml');
  const table = await readTomlFile(path);
  return table === null ? null : discovered(path, parseEnvironments(table, home, relay));
}

async function fromConfigFile(home: string): Promise<DiscoveredEnvironments | null> {
  const path = join(home, 'config.toml');
  const table = await readTomlFile(path);
  // Other programs share the file: only this key is validated.
  const url = table?.table('exec_server')?.string('url')?.trim() || null;
  return fromUrl(url, path);
}

function fromUrl(url: string | null, source: string): DiscoveredEnvironments | null {
  if (url === null) return null;
  if (url.toLowerCase() === 'none') {
    return discovered(source, { environments: [], default: null, includeLocal: false });
  }
  return onlyRemote(source, { type: 'websocket', url });
}

function onlyRemote(source: string, transport: EnvironmentTransport): DiscoveredEnvironments {
  const environments = [{ id: REMOTE_ENVIRONMENT_ID, transport }];
  return discovered(source, { environments, default: REMOTE_ENVIRONMENT_ID, includeLocal: false });
}

function discovered(source: string | null, provided: ProvidedEnvironments): DiscoveredEnvironments {
  const defaultIsRemote = provided.default !== null && provided.default !== LOCAL_ENVIRONMENT_ID;
  return { ...provided, source, defaultIsRemote };
}

/** Returns the trimmed value; null when it is empty or absent. */
function variable(env: Variables, name: string): string | null {
  return env[name]?.trim() || null;
}
