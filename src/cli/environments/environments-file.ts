import { readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { readTomlFile } from '../../environment/config/toml-file.ts';
import { TomlTable } from '../../environment/config/toml-table.ts';
import { MAX_ENVIRONMENT_ID_CHARS } from '../../environment/limits.ts';
import { quoteValue } from '../../server/config/values.ts';
import { userConfigFile } from '../config-file.ts';
import { RunError, UsageError } from '../failures.ts';
import { cannotWriteFile } from '../file-failures.ts';
import { replaceFile } from '../replace-file.ts';
import { withFolderLock } from './folder-lock.ts';

/** An environment that the user has named. */
export interface NamedEnvironment {
  readonly id: string;
  /** `ws:`, `wss:`, `unix:` or `ssh:`; of a relay `https:` or `http:`. */
  readonly url: string;
  /** The file with the token; null for none. */
  readonly tokenFile: string | null;
  /** The environment at a relay; null for a server. */
  readonly environmentId: string | null;
  /** Files for TLS, of a `wss:` server. */
  readonly tls: TlsFiles;
}

/** PEM files with which a client and a server know each other. */
export interface TlsFiles {
  /** The only authority that may sign the certificate of the server; null for those that the system trusts. */
  readonly ca: string | null;
  /** The certificate of this client, and its key; null for none. */
  readonly cert: string | null;
  readonly key: string | null;
}

/** What environments.toml of this program says. */
interface EnvironmentsFile {
  readonly path: string;
  readonly environments: readonly NamedEnvironment[];
  /** The name that `use --global` has chosen. */
  readonly default: string | null;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** Reads the user's environments. Throws ClientError of kind `config` for a file that is wrong, and RunError without a home directory. */
export async function readEnvironments(env: Environment): Promise<EnvironmentsFile> {
  const path = pathOf(env);
  const root = await readTomlFile(path);
  return root === null ? { path, environments: [], default: null } : { path, ...parse(root) };
}

/** Adds an environment at the end of the file. The rest of the file stays as it is. */
export async function addEnvironment(env: Environment, added: NamedEnvironment): Promise<void> {
  const isRelay = added.environmentId !== null;
  const values: readonly (readonly [string, string | null])[] = [
    ['id', added.id],
    [isRelay ? 'registry_url' : 'url', added.url],
    ['environment_id', added.environmentId],
    ['token_file', added.tokenFile],
    ['ca_file', added.tls.ca],
    ['cert_file', added.tls.cert],
    ['key_file', added.tls.key],
  ];
  const lines = values.flatMap(([key, value]) =>
    value === null ? [] : [`${key} = ${JSON.stringify(value)}`],
  );
  const expected = (before: Values): Values => ({ ...before, environments: [...before.environments, added] });
  await edit(env, expected, (text, { environments }) => {
    if (environments.some(({ id }) => id === added.id)) {
      throw new RunError(
        `the environment ${quoteValue(added.id)} exists; remove it first with 'exec-server env rm ${added.id}'`,
      );
    }
    const separator = text === '' || text.endsWith('\n\n') ? '' : text.endsWith('\n') ? '\n' : '\n\n';
    return `${text}${separator}[[environments]]\n${lines.join('\n')}\n`;
  });
}

/**
 * Removes an environment. Comments inside its table go with it; the rest of the file stays as it is. A default that names it stays too:
 * commands that were meant for it must fail, not run elsewhere.
 */
export async function removeEnvironment(env: Environment, id: string): Promise<void> {
  const expected = (before: Values): Values => ({
    environments: before.environments.filter((environment) => environment.id !== id),
    default: before.default,
  });
  await edit(env, expected, (text, before) => {
    const index = before.environments.findIndex((environment) => environment.id === id);
    // Another command has removed it.
    if (index === -1) return text;
    const tables = text.split(/^(?=[ \t]*\[\[)/m);
    // What precedes the first table is not one.
    const first = /^[ \t]*\[\[/.test(tables[0] ?? '') ? 0 : 1;
    return tables.filter((_, position) => position !== index + first).join('');
  });
}

/** Sets the default environment; null removes it. */
export async function setDefault(env: Environment, id: string | null): Promise<void> {
  await edit(
    env,
    (before) => ({ ...before, default: id }),
    (text) => (id === null ? '' : `default = ${JSON.stringify(id)}\n`) + withoutDefault(text),
  );
}

type Values = Pick<EnvironmentsFile, 'environments' | 'default'>;

/**
 * Changes the text of the file, and writes it only if it then means what is expected: a file in an unusual form must be edited by hand,
 * but is never damaged. The file is replaced in one step, and by one command after the other.
 */
async function edit(
  env: Environment,
  expected: (before: Values) => Values,
  change: (text: string, before: Values) => string,
): Promise<void> {
  const path = pathOf(env);
  await withFolderLock(dirname(path), () => editLocked(env, path, expected, change));
}

async function editLocked(
  env: Environment,
  path: string,
  expected: (before: Values) => Values,
  change: (text: string, before: Values) => string,
): Promise<void> {
  const { environments, default: chosen } = await readEnvironments(env);
  const before: Values = { environments, default: chosen };
  const text = readText(path);
  const changed = change(text, before);
  const wanted = JSON.stringify(expected(before));
  const { parse: parseToml } = await import('smol-toml');
  let result = '';
  try {
    const values = parse(new TomlTable(path, '', parseToml(changed)));
    result = JSON.stringify({ environments: values.environments, default: values.default });
  } catch {}
  if (result !== wanted) {
    throw new RunError(`${path} has an unusual form and cannot be changed safely; edit it by hand`);
  }
  try {
    replaceFile(path, changed, { mode: 0o600 });
  } catch (error) {
    throw cannotWriteFile(path, error);
  }
}

function withoutDefault(text: string): string {
  return text.replace(/^[ \t]*default[ \t]*=.*(?:\n|$)/m, '');
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    // readEnvironments has reported every failure but a missing file.
    return '';
  }
}

function pathOf(env: Environment): string {
  const path = userConfigFile(env, 'environments.toml');
  if (path === null) throw new RunError('this user has no home directory; set XDG_CONFIG_HOME');
  return path;
}

function parse(root: TomlTable): Values {
  root.refuseUnknownKeys(['default', 'environments']);
  const environments = root.tables('environments').map(parseEnvironment);
  return { environments, default: root.string('default') ?? null };
}

function parseEnvironment(table: TomlTable): NamedEnvironment {
  const id = table.string('id');
  if (id === undefined) throw table.error("'id' is missing", 'write id = "a-name"');
  const named = table.named(`[[environments]] '${id}'`);
  named.refuseUnknownKeys([
    ...['id', 'url', 'token_file', 'registry_url', 'environment_id'],
    ...['ca_file', 'cert_file', 'key_file'],
  ]);
  const problem = nameProblem(id);
  if (problem !== null) throw named.error(problem, 'choose another id');
  const [url, registry] = [named.string('url'), named.string('registry_url')];
  if ((url === undefined) === (registry === undefined)) {
    throw named.error(
      "it needs either 'url' or 'registry_url'",
      'write url for a server, registry_url for a relay',
    );
  }
  if (url !== undefined && named.has('environment_id')) {
    throw named.error("'environment_id' is only valid together with 'registry_url'", 'remove environment_id');
  }
  const tls = parseTls(named);
  const address = (url ?? registry)!;
  if (!usesTls(address) && Object.values(tls).some((file) => file !== null)) {
    throw named.error(
      "'ca_file', 'cert_file' and 'key_file' are only for wss:// and https:// URLs",
      'remove them',
    );
  }
  return {
    id,
    url: address,
    tokenFile: named.string('token_file') ?? null,
    environmentId: registry === undefined ? null : (named.string('environment_id') ?? id),
    tls,
  };
}

/** Whether connections to the URL use TLS, so that certificates make sense. */
export function usesTls(url: string): boolean {
  return /^(wss|https):/.test(url);
}

function parseTls(table: TomlTable): TlsFiles {
  const [ca = null, cert = null, key = null] = ['ca_file', 'cert_file', 'key_file'].map((name) =>
    table.string(name),
  );
  if ((cert === null) !== (key === null)) {
    throw table.error("'cert_file' and 'key_file' need each other", 'add the other one');
  }
  return { ca, cert, key };
}

/** Throws UsageError for a name that an environment cannot have. */
export function checkName(id: string, command: string): void {
  const problem = nameProblem(id);
  if (problem !== null) throw new UsageError(problem, command);
}

function nameProblem(id: string): string | null {
  if (/^(?:local|none)$/i.test(id)) return `the name ${quoteValue(id)} is reserved`;
  if (id.length <= MAX_ENVIRONMENT_ID_CHARS && /^[A-Za-z0-9_-]+$/.test(id)) return null;
  return `${quoteValue(id)} is not a name; use 1 to ${MAX_ENVIRONMENT_ID_CHARS} letters, digits, - and _`;
}
