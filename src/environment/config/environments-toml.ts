import { resolve } from 'node:path';
import { CONNECT_TIMEOUT_MS, INITIALIZE_TIMEOUT_MS } from '../../client/limits.ts';
import { MAX_ENVIRONMENT_ID_CHARS, MAX_TIMEOUT_SEC } from '../limits.ts';
import type { EnvironmentTransport, ProvidedEnvironment, ProvidedEnvironments } from '../provider.ts';
import { type RelaySettings, relayTransport } from './relay-transport.ts';
import { quote, type TomlTable } from './toml-table.ts';

/**
 * Parses the environments of an environments.toml. Throws for the first error in it. Relative directories are resolved against
 * `home`, the folder of the file. `relay` creates the transports to environments behind a relay.
 */
export function parseEnvironments(
  root: TomlTable,
  home: string,
  relay: Relay = relayTransport,
): ProvidedEnvironments {
  root.refuseUnknownKeys(['default', 'include_local', 'environments']);
  const includeLocal = root.boolean('include_local') ?? true;
  const environments: ProvidedEnvironment[] = [];
  for (const table of root.tables('environments')) {
    const environment = parseEnvironment(table, home, relay);
    if (environments.some(({ id }) => id === environment.id)) {
      throw table.error(
        `the id ${quote(environment.id)} is taken by an environment above`,
        'ids must differ',
      );
    }
    environments.push(environment);
  }
  return { environments, includeLocal, default: parseDefault(root, environments, includeLocal) };
}

type Relay = (settings: RelaySettings) => EnvironmentTransport;

function parseEnvironment(table: TomlTable, home: string, relay: Relay): ProvidedEnvironment {
  const id = parseId(table);
  const named = table.named(`[[environments]] ${quote(id)}`);
  named.refuseUnknownKeys(KEYS);
  const transport = named.has('registry_url') ? parseRelay(named, id, relay) : parseTransport(named, home);
  return { id, transport, requiredSkills: parseSkills(named) };
}

const URL_KEYS = ['auth_bearer_token', 'connect_timeout_sec'];
const PROGRAM_KEYS = ['args', 'env', 'cwd'];
const RELAY_KEYS = ['environment_id'];
const KEYS = [
  'id',
  'url',
  ...URL_KEYS,
  'program',
  ...PROGRAM_KEYS,
  'registry_url',
  ...RELAY_KEYS,
  'initialize_timeout_sec',
  'recovery_window_sec',
  'skills',
];

function parseId(table: TomlTable): string {
  const id = table.string('id');
  if (id === undefined) throw table.error("'id' is missing", 'write id = "a-name"');
  if (id !== id.trim())
    throw table.error(`the id ${quote(id)} has leading or trailing spaces`, 'remove them');
  if (/^(?:local|none)$/i.test(id)) {
    throw table.error(`the id ${quote(id)} is reserved`, 'choose another one');
  }
  if (id.length > MAX_ENVIRONMENT_ID_CHARS) {
    throw table.error(
      `the id ${quote(id)} is longer than ${MAX_ENVIRONMENT_ID_CHARS} characters`,
      'choose a shorter one',
    );
  }
  if (!/^[A-Za-z0-9_-]+$/.test(id)) {
    throw table.error(`${quote(id)} is not a valid id`, 'use one or more letters, digits, - and _');
  }
  return id;
}

function parseTransport(table: TomlTable, home: string): EnvironmentTransport {
  if (table.has('url') === table.has('program')) {
    throw table.error(
      table.has('url') ? "it has both 'url' and 'program'" : "it has neither 'url' nor 'program'",
      'write url for a server that runs, or program for one to start, and not both',
    );
  }
  const initializeTimeoutMs = parseSeconds(table, 'initialize_timeout_sec') ?? INITIALIZE_TIMEOUT_MS;
  return table.has('url')
    ? { ...parseWebSocket(table), initializeTimeoutMs, ...parseRecoveryWindow(table) }
    : { ...parseCommand(table, home), initializeTimeoutMs };
}

/** The relay's environment has the same id unless the table names another one. */
function parseRelay(table: TomlTable, id: string, relay: Relay): EnvironmentTransport {
  for (const owner of ['url', 'program']) {
    if (table.has(owner)) {
      throw table.error(`it has both 'registry_url' and '${owner}'`, 'write only one of them');
    }
  }
  refuseKeysOfOther(table, PROGRAM_KEYS, 'program');
  refuseKeysOfOther(table, ['connect_timeout_sec'], 'url');
  const registryUrl = table.string('registry_url')!.trim();
  if (!/^https?:\/\//.test(registryUrl) || !URL.canParse(registryUrl)) {
    throw table.error(
      `'registry_url' is ${quote(registryUrl)}, which is not an HTTP URL`,
      'write https://HOST',
    );
  }
  const authToken = table.string('auth_bearer_token');
  if (authToken === undefined) {
    throw table.error("'auth_bearer_token' is missing", 'registries require a token');
  }
  const environmentId = table.string('environment_id') ?? id;
  const target = relay({ registryUrl, environmentId, authToken, accountId: null });
  const initializeTimeoutMs = parseSeconds(table, 'initialize_timeout_sec') ?? INITIALIZE_TIMEOUT_MS;
  return { ...target, initializeTimeoutMs, ...parseRecoveryWindow(table) };
}

function parseWebSocket(table: TomlTable): EnvironmentTransport & { readonly type: 'websocket' } {
  refuseKeysOfOther(table, PROGRAM_KEYS, 'program');
  refuseKeysOfOther(table, RELAY_KEYS, 'registry_url');
  const url = table.string('url')!.trim();
  if (!/^wss?:\/\//.test(url) || !URL.canParse(url)) {
    throw table.error(
      `'url' is ${quote(url)}, which is no websocket URL`,
      'write ws://HOST:PORT or wss://HOST',
    );
  }
  return {
    type: 'websocket',
    url,
    authToken: table.string('auth_bearer_token') ?? null,
    connectTimeoutMs: parseSeconds(table, 'connect_timeout_sec') ?? CONNECT_TIMEOUT_MS,
  };
}

function parseCommand(table: TomlTable, home: string): EnvironmentTransport & { readonly type: 'stdio' } {
  refuseKeysOfOther(table, URL_KEYS, 'url');
  if (table.has('recovery_window_sec')) {
    throw table.error(
      "'recovery_window_sec' is not valid together with 'program': a program ends with its connection",
      'remove recovery_window_sec, or use url or registry_url',
    );
  }
  refuseKeysOfOther(table, RELAY_KEYS, 'registry_url');
  const program = table.string('program')!.trim();
  if (program === '') throw table.error("'program' is empty", 'write the name or path of a program');
  const cwd = table.string('cwd');
  return {
    type: 'stdio',
    program,
    args: table.strings('args') ?? [],
    env: table.stringMap('env') ?? {},
    cwd: cwd === undefined ? null : resolve(home, cwd),
  };
}

function refuseKeysOfOther(table: TomlTable, keys: readonly string[], owner: string): void {
  const key = keys.find((candidate) => table.has(candidate));
  if (key === undefined) return;
  throw table.error(`'${key}' is only valid together with '${owner}'`, `remove ${key}, or use ${owner}`);
}

/** `advice` is the fix for a value that is not a number. */
function parseSeconds(table: TomlTable, key: string, advice?: string): number | undefined {
  const seconds = table.number(key, advice);
  if (seconds === undefined) return undefined;
  // This form also rejects nan.
  if (!(seconds >= 0 && seconds <= MAX_TIMEOUT_SEC)) {
    throw table.error(`'${key}' is ${seconds}`, `write seconds from 0 to ${MAX_TIMEOUT_SEC}`);
  }
  return seconds * 1000;
}

/** Without the key the setting of the manager applies. */
function parseRecoveryWindow(table: TomlTable): { recoveryWindowMs?: number | 'none' } {
  if (table.is('recovery_window_sec', 'none')) return { recoveryWindowMs: 'none' };
  const advice = 'write seconds without quotes, such as 3600, or "none" for no limit';
  const recoveryWindowMs = parseSeconds(table, 'recovery_window_sec', advice);
  return recoveryWindowMs === undefined ? {} : { recoveryWindowMs };
}

function parseSkills(table: TomlTable): readonly string[] {
  const skills = table.table('skills');
  skills?.refuseUnknownKeys(['required']);
  const required = skills?.strings('required') ?? [];
  if (required.some((name) => name.trim() === '')) {
    throw table.error("'skills.required' has a blank name", 'write the names of skills');
  }
  return required;
}

function parseDefault(
  root: TomlTable,
  environments: readonly ProvidedEnvironment[],
  includeLocal: boolean,
): string | null {
  const name = root.string('default')?.trim();
  if (name === undefined) return includeLocal ? 'local' : null;
  if (name.toLowerCase() === 'none') return null;
  const ids = [...(includeLocal ? ['local'] : []), ...environments.map(({ id }) => id)];
  if (ids.includes(name)) return name;
  const problem = name === '' ? "'default' is empty" : `'default' is ${quote(name)}, which is no environment`;
  const why = name === 'local' ? 'set include_local = true, or ' : '';
  throw root.error(problem, `${why}write one of ${[...ids, 'none'].join(', ')}`);
}
