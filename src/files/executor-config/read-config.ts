import type { ResultOf } from '../../protocol/registry.ts';
import type { FileSystem } from '../file-system.ts';
import { childPath, type NativePath, textOfNativePath } from '../native-path.ts';
import { uriFromPath } from '../path-uri.ts';
import { type ConfigLocations, findConfigLocations, type LocationVariables } from './config-locations.ts';
import { projectRules, trustedDirectories } from './project-trust.ts';
import { type Selection, selected, selectionOf } from './selection.ts';
import { badConfig, TomlFiles, type TomlTable } from './toml-files.ts';
import { tomlText } from './toml-text.ts';

/** The requested configuration. */
interface ConfigQuery {
  /** The directory to which it applies. It need not exist. */
  readonly cwd: NativePath;
  /** The requested keys of the configuration and of the requirements, as key paths. */
  readonly configPaths: readonly (readonly string[])[];
  readonly requirementsPaths: readonly (readonly string[])[];
}

/** The layers of configuration and their requested values. The caller adds the host name. */
type ExecutorConfig = Omit<ResultOf<'environmentConfig/read'>, 'hostname'>;

/**
 * The configuration of this machine for a directory: the administrator's, the user's, that of each trusted directory of the
 * project, and the managed configuration of the administrator. Later ones take precedence. The files are read on every call. Throws
 * FileError when a file cannot be used. Files of an untrusted project are not read.
 */
export async function readExecutorConfig(
  files: FileSystem,
  query: ConfigQuery,
  { variables, signal, locations: fixedLocations }: ReadOptions,
): Promise<ExecutorConfig> {
  const locations = fixedLocations ?? (await findConfigLocations(files, variables));
  const toml = new TomlFiles(files, signal);
  const { system, user, managed } = await readFixed(toml, locations);
  const rules = projectRules([system, user, managed].map((layer) => layer?.table ?? {}));
  const projects: Layer[] = [];
  for (const directory of await trustedDirectories(files, query.cwd, rules)) {
    const layer = await readLayer(toml, childPath(directory, '.codex'), CONFIG, 'project');
    if (layer === null || layer.path === childPath(locations.codexHome, CONFIG)) continue;
    projects.push({ ...layer, table: withoutUserKeys(layer.table) });
  }
  const requirements = await readLayer(toml, locations.system, 'requirements.toml', null);
  return {
    userHomeDir: uriFromPath(locations.userHome),
    codexHomeDir: uriFromPath(locations.codexHome),
    config: stack([system, user, ...projects, managed], selectionOf(query.configPaths), system),
    requirements: stack(
      [requirements, managedRequirements(managed)],
      selectionOf(query.requirementsPaths),
      requirements,
    ),
  };
}

interface ReadOptions {
  readonly variables: LocationVariables;
  readonly signal: AbortSignal;
  /** Replaces the locations that the variables determine. */
  readonly locations?: ConfigLocations;
}

const CONFIG = 'config.toml';

/** One file of the configuration. */
interface Layer {
  readonly source: string;
  readonly directory: NativePath;
  readonly path: NativePath;
  readonly table: TomlTable;
}

async function readFixed(toml: TomlFiles, locations: ConfigLocations) {
  return {
    system: await readLayer(toml, locations.system, CONFIG, 'system'),
    user: await readLayer(toml, locations.codexHome, CONFIG, 'user'),
    managed: await readLayer(toml, locations.system, 'managed_config.toml', 'legacy managed_config.toml'),
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

/** A project must not set where the user's credentials and telemetry go, or which program is notified. */
function withoutUserKeys(table: TomlTable): TomlTable {
  return Object.fromEntries(Object.entries(table).filter(([key]) => !USER_ONLY_KEYS.has(key)));
}

const USER_ONLY_KEYS = new Set([
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

/** Managed values cannot be overridden, so they are also reported as requirements. */
function managedRequirements(managed: Layer | null): Layer | null {
  if (managed === null) return null;
  const { approval_policy: approval, sandbox_mode: sandbox } = managed.table;
  const table: Record<string, unknown> = {};
  if (approval !== undefined) table.allowed_approval_policies = [managedText('approval_policy', approval)];
  if (sandbox !== undefined) {
    const mode = managedText('sandbox_mode', sandbox);
    table.allowed_sandbox_modes = mode === READ_ONLY ? [mode] : [READ_ONLY, mode];
  }
  return { ...managed, source: textOfNativePath(managed.path), table };
}

/** Always allowed, because no mode allows less. */
const READ_ONLY = 'read-only';

function managedText(key: string, value: unknown): string {
  if (typeof value === 'string') return value;
  throw badConfig(`${key} in the managed configuration must be a string`);
}

type Stack = ExecutorConfig['config'];

/** The layers with requested values. Cloud layers, which only the client knows, belong above the system's layers. */
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
