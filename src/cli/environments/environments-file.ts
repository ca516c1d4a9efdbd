import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { readTomlFile } from '../../environment/config/toml-file.ts';
import { TomlTable } from '../../environment/config/toml-table.ts';
import { MAX_ENVIRONMENT_ID_CHARS } from '../../environment/limits.ts';
import { quoteValue } from '../../server/config/values.ts';
import { userConfigFile } from '../config-file.ts';
import { RunError, UsageError } from '../failures.ts';

/** An environment that the user has named. */
export interface NamedEnvironment {
  readonly id: string;
  /** `ws:`, `wss:`, `unix:` or `ssh:`; of a relay `https:` or `http:`. */
  readonly url: string;
  /** The file with the token; null for none. */
  readonly tokenFile: string | null;
  /** The environment at a relay; null for a server. */
  readonly environmentId: string | null;
}

/** What environments.toml of this program says. */
export interface EnvironmentsFile {
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
  const { environments } = await readEnvironments(env);
  if (environments.some(({ id }) => id === added.id)) {
    throw new RunError(
      `the environment ${quoteValue(added.id)} exists; remove it first with 'exec-server env rm ${added.id}'`,
    );
  }
  const isRelay = added.environmentId !== null;
  const lines = [
    '[[environments]]',
    `id = ${JSON.stringify(added.id)}`,
    `${isRelay ? 'registry_url' : 'url'} = ${JSON.stringify(added.url)}`,
    ...(isRelay ? [`environment_id = ${JSON.stringify(added.environmentId)}`] : []),
    ...(added.tokenFile === null ? [] : [`token_file = ${JSON.stringify(added.tokenFile)}`]),
  ];
  const expected = (before: Values): Values => ({ ...before, environments: [...before.environments, added] });
  await edit(env, expected, (text) => {
    const separator = text === '' || text.endsWith('\n\n') ? '' : text.endsWith('\n') ? '\n' : '\n\n';
    return `${text}${separator}${lines.join('\n')}\n`;
  });
}

/** Removes an environment. Comments inside its table go with it; the rest of the file stays as it is. */
export async function removeEnvironment(env: Environment, id: string): Promise<void> {
  const expected = (before: Values): Values => ({
    environments: before.environments.filter((environment) => environment.id !== id),
    default: before.default === id ? null : before.default,
  });
  await edit(env, expected, (text, before) => {
    const index = before.environments.findIndex((environment) => environment.id === id);
    const kept = before.default === id ? withoutDefault(text) : text;
    const tables = kept.split(/^(?=[ \t]*\[\[)/m);
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
 * but is never damaged. The file is replaced in one step.
 */
async function edit(
  env: Environment,
  expected: (before: Values) => Values,
  change: (text: string, before: Values) => string,
): Promise<void> {
  const path = pathOf(env);
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
  replaceFile(path, changed);
}

function replaceFile(path: string, text: string): void {
  const draft = `${path}.${process.pid}.tmp`;
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    writeFileSync(draft, text, { mode: 0o600, flag: 'wx' });
    renameSync(draft, path);
  } catch (error) {
    rmSync(draft, { force: true });
    throw new RunError(`cannot write ${path}: ${(error as Error).message}`);
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
  named.refuseUnknownKeys(['id', 'url', 'token_file', 'registry_url', 'environment_id']);
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
  return {
    id,
    url: (url ?? registry)!,
    tokenFile: named.string('token_file') ?? null,
    environmentId: registry === undefined ? null : (named.string('environment_id') ?? id),
  };
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
