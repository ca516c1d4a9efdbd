import type { ResultOf } from '../../protocol/registry.ts';
import type { FileSystem } from '../file-system.ts';
import { childPath, type NativePath, textOfNativePath } from '../native-path.ts';
import { uriFromPath } from '../path-uri.ts';
import { type ConfigLocations, findConfigLocations, type LocationVariables } from './config-locations.ts';
import { projectRules, trustedDirectories } from './project-trust.ts';
import { type Selection, selected, selectionOf } from './selection.ts';
import { badConfig, TomlFiles, type TomlTable } from './toml-files.ts';
import { tomlText } from './toml-text.ts';

/** Which configuration is asked for. */
export interface ConfigQuery {
  /** What it is to hold for; the directory need not exist. */
  readonly cwd: NativePath;
  /** What is wanted of the configuration, and of what its values may be, as paths of keys. */
  readonly configPaths: readonly (readonly string[])[];
  readonly requirementsPaths: readonly (readonly string[])[];
}

/** The stack of configurations, and what is wanted of them, with the host's name left to the caller. */
export type ExecutorConfig = Omit<ResultOf<'environmentConfig/read'>, 'hostname'>;

/**
 * The configuration of this machine that holds in a directory: the administrator's, the user's, that of each trusted directory of
 * the project, and what the administrator imposes, the weightiest last. Everything is read anew each time. Throws FileError when a
 * file that counts cannot be used; a project that nobody trusts is not even looked at.
 */
export async function readExecutorConfig(
  files: FileSystem,
  query: ConfigQuery,
  { variables, signal, places: given }: ReadOptions,
): Promise<ExecutorConfig> {
  const places = given ?? (await findConfigLocations(files, variables));
  const toml = new TomlFiles(files, signal);
  const { system, user, managed } = await readFixed(toml, places);
  const rules = projectRules([system, user, managed].map((layer) => layer?.table ?? {}));
  const projects: Layer[] = [];
  for (const directory of await trustedDirectories(files, query.cwd, rules)) {
    const layer = await readLayer(toml, childPath(directory, '.codex'), CONFIG, 'project');
    if (layer === null || layer.path === childPath(places.codexHome, CONFIG)) continue;
    projects.push({ ...layer, table: ofProject(layer.table) });
  }
  const requirements = await readLayer(toml, places.system, 'requirements.toml', null);
  return {
    userHomeDir: uriFromPath(places.userHome),
    codexHomeDir: uriFromPath(places.codexHome),
    config: stack([system, user, ...projects, managed], selectionOf(query.configPaths), system),
    requirements: stack([requirements, imposed(managed)], selectionOf(query.requirementsPaths), requirements),
  };
}

export interface ReadOptions {
  readonly variables: LocationVariables;
  readonly signal: AbortSignal;
  /** In place of those that the variables lead to. */
  readonly places?: ConfigLocations;
}

const CONFIG = 'config.toml';

/** One file of the stack. */
interface Layer {
  readonly source: string;
  readonly directory: NativePath;
  readonly path: NativePath;
  readonly table: TomlTable;
}

async function readFixed(toml: TomlFiles, places: ConfigLocations) {
  return {
    system: await readLayer(toml, places.system, CONFIG, 'system'),
    user: await readLayer(toml, places.codexHome, CONFIG, 'user'),
    managed: await readLayer(toml, places.system, 'managed_config.toml', 'legacy managed_config.toml'),
  };
}

async function readLayer(
  toml: TomlFiles,
  directory: NativePath,
  name: string,
  kind: string | null,
): Promise<Layer | null> {
  const path = childPath(directory, name);
  const table = await toml.read(path);
  if (table === null) return null;
  const text = textOfNativePath(path);
  return { source: kind === null ? text : `${kind} (${text})`, directory, path, table };
}

/** A project may not say where its user's credentials and reports go, or which programs report them. */
function ofProject(table: TomlTable): TomlTable {
  return Object.fromEntries(Object.entries(table).filter(([key]) => !USERS_OWN.has(key)));
}

const USERS_OWN = new Set([
  'chatgpt_base_url',
  'experimental_realtime_webrtc_call_base_url',
  'experimental_realtime_ws_base_url',
  'model_provider',
  'model_providers',
  'notify',
  'openai_base_url',
  'otel',
  'profile',
  'profiles',
]);

/** What is imposed by values that nobody can change is told as a requirement, too. */
function imposed(managed: Layer | null): Layer | null {
  if (managed === null) return null;
  const { approval_policy: approval, sandbox_mode: sandbox } = managed.table;
  const table: Record<string, unknown> = {};
  if (approval !== undefined) table.allowed_approval_policies = [imposedText('approval_policy', approval)];
  if (sandbox !== undefined) {
    const mode = imposedText('sandbox_mode', sandbox);
    table.allowed_sandbox_modes = mode === READ_ONLY ? [mode] : [READ_ONLY, mode];
  }
  return { ...managed, source: textOfNativePath(managed.path), table };
}

/** A mode that is always allowed, as there is none that allows less. */
const READ_ONLY = 'read-only';

function imposedText(key: string, value: unknown): string {
  if (typeof value === 'string') return value;
  throw badConfig(`${key} in the managed configuration must be a string`);
}

type Stack = ExecutorConfig['config'];

/** The layers of which something is wanted. Layers of a cloud, which a client may know of, belong above what is the system's. */
function stack(layers: readonly (Layer | null)[], selection: Selection, system: Layer | null): Stack {
  const kept = layers.flatMap((layer) => {
    const table = layer === null ? {} : selected(layer.table, selection);
    return layer === null || Object.keys(table).length === 0 ? [] : [{ layer, table }];
  });
  return {
    layers: kept.map(({ layer: { source, directory }, table }) => ({
      source,
      baseDir: uriFromPath(directory),
      toml: tomlText(table),
    })),
    cloudInsertionIndex: kept.some(({ layer }) => layer === system) ? 1 : 0,
  };
}
