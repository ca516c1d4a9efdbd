import { forEachBounded } from '../../base/for-each-bounded.ts';
import type { ResultOf } from '../../protocol/registry.ts';
import { FileError } from '../errors.ts';
import type { ConfigLocations } from '../executor-config/config-locations.ts';
import type { FileSystem } from '../file-system.ts';
import { DISCOVERY_ANSWER_BYTES, DISCOVERY_ROOT_CONCURRENCY, MAX_DISCOVERY_ROOTS } from '../limits.ts';
import { childPath, isWithin, lastName, type NativePath, parentPath, textOfName } from '../native-path.ts';
import { pathFromUri, uriFromPath } from '../path-uri.ts';
import { Budget } from './budget.ts';
import type { LinkRule } from './file-bundle.ts';
import { isRecord } from './plugin.ts';
import { type DiscoveredRoot, discoverRoot, type Lookup } from './root.ts';
import { skillExtras, skillHead } from './skill-metadata.ts';
import { YamlError } from './skill-yaml.ts';
import { newestVersion } from './versions.ts';

export type InstalledCapabilities = ResultOf<'capabilities/discoverV2'>;
type InstalledPlugin = InstalledCapabilities['plugins'][number];
type InstalledSkill = InstalledCapabilities['skills'][number];

/**
 * What is installed on this machine for its user: the newest version of each plugin and the skills that were put in the known places.
 * Everything is looked up anew each time. What cannot be used is left out with a warning.
 */
export async function discoverInstalled(
  files: FileSystem,
  places: ConfigLocations,
  signal: AbortSignal,
  links: LinkRule = 'contain',
): Promise<InstalledCapabilities> {
  const warnings: string[] = [];
  const lookup = { files, answer: new Budget(DISCOVERY_ANSWER_BYTES, 'capability discovery answer'), links };
  const cache = childPath(childPath(places.codexHome, 'plugins'), 'cache');
  const plugins = await discoverPlugins(
    await installedPlugins(lookup, cache, warnings),
    lookup,
    warnings,
    signal,
  );
  const skills: InstalledSkill[] = [];
  for (const { id, path } of skillRoots(places)) {
    const uri = uriFromPath(path);
    const root = await discoverRoot({ id, uri, path }, lookup, signal);
    warnings.push(...root.warnings);
    const discoveryRoot = { id, path: uri };
    skills.push(...skillsOf(root, warnings).map((skill) => ({ ...skill, discoveryRoot })));
  }
  return { plugins, skills, warnings };
}

interface PluginLocation {
  readonly id: string;
  readonly version: string;
  readonly path: NativePath;
}

function skillRoots({ codexHome, userHome }: ConfigLocations) {
  return [
    { id: 'codex-home-skills', path: childPath(codexHome, 'skills') },
    { id: 'user-agent-skills', path: childPath(childPath(userHome, '.agents'), 'skills') },
  ];
}

/** `MARKETPLACE/PLUGIN/VERSION` below the cache. A plugin may be a link to where it is developed, within the cache. */
async function installedPlugins(
  { files, links }: Lookup,
  cache: NativePath,
  warnings: string[],
): Promise<PluginLocation[]> {
  const found: PluginLocation[] = [];
  const realCache = await files.canonicalize(cache).catch(noneWhenMissing);
  if (realCache === null) return [];
  for (const marketplace of await directoriesIn(files, realCache, false)) {
    for (const plugin of await directoriesIn(files, childPath(realCache, marketplace), true)) {
      const directory = childPath(childPath(cache, marketplace), plugin);
      const real = await files.canonicalize(directory).catch(noneWhenMissing);
      const version = real && newestVersion(await directoriesIn(files, real, false));
      if (real === null || version === null) continue;
      if (links === 'contain' && !isWithin(real, realCache)) {
        warnings.push(`plugin ${uriFromPath(directory)} is a link that leads out of ${uriFromPath(cache)}`);
        continue;
      }
      found.push({ id: `${plugin}@${marketplace}`, version, path: childPath(directory, version) });
    }
  }
  if (found.length > MAX_DISCOVERY_ROOTS) {
    warnings.push(`only ${MAX_DISCOVERY_ROOTS} of ${found.length} plugins are told`);
  }
  return found.sort((one, other) => (one.id < other.id ? -1 : 1)).slice(0, MAX_DISCOVERY_ROOTS);
}

async function discoverPlugins(
  places: readonly PluginLocation[],
  lookup: Lookup,
  warnings: string[],
  signal: AbortSignal,
): Promise<InstalledPlugin[]> {
  const found = new Array<DiscoveredRoot>(places.length);
  await forEachBounded(places.keys(), DISCOVERY_ROOT_CONCURRENCY, async (index) => {
    const { id, path } = places[index]!;
    found[index] = await discoverRoot({ id, path, uri: uriFromPath(path) }, lookup, signal);
  });
  return places.flatMap((place, index) => pluginOf(place, found[index]!, warnings) ?? []);
}

function pluginOf(
  { id, version }: PluginLocation,
  root: DiscoveredRoot,
  warnings: string[],
): InstalledPlugin | null {
  warnings.push(...root.warnings);
  const manifest = root.plugin && manifestOf(root.plugin.manifest.contents);
  if (root.plugin === null || manifest == null) {
    warnings.push(root.error ?? `plugin ${root.path} has no manifest that can be used`);
    return null;
  }
  const { mcpServers, name, displayName } = manifest;
  // A client reads either kind from one place.
  const inline = mcpServers && { path: root.plugin.manifest.path, contents: mcpServers };
  return {
    id: textOfName(id),
    displayName: displayName ?? name ?? lastSegment(root.path),
    remotePluginId: null,
    version: textOfName(version),
    root: root.path,
    files: { ...root.plugin, ...(inline && { mcpConfig: inline }) },
    skills: skillsOf(root, warnings),
  };
}

interface Manifest {
  readonly name: string | null;
  readonly displayName: string | null;
  /** The servers that it describes itself, as JSON. */
  readonly mcpServers: string | null;
}

/** Null when it is not what a manifest should be. */
function manifestOf(contents: string): Manifest | null {
  try {
    return readManifest(JSON.parse(contents));
  } catch {
    // It is no JSON, or nested too deeply to be written again.
    return null;
  }
}

function readManifest(members: unknown): Manifest | null {
  if (!isRecord(members)) return null;
  const { name = null, apps = null, mcpServers } = members;
  const { displayName = null } = isRecord(members.interface) ? members.interface : {};
  if (!isTextOrNull(name) || !isTextOrNull(displayName) || !isTextOrNull(apps)) return null;
  return {
    name: name?.trim() || null,
    displayName: displayName?.trim() || null,
    mcpServers: isRecord(mcpServers) ? JSON.stringify(mcpServers) : null,
  };
}

/** The skills of a root, each under the name of the nearest plugin that it is part of. */
function skillsOf(root: DiscoveredRoot, warnings: string[]): InstalledSkill[] {
  const namespaces = root.namespaceManifests.map(({ path, contents }) => {
    const directory = path.slice(0, path.lastIndexOf('/', path.lastIndexOf('/') - 1));
    return { directory, name: manifestOf(contents)?.name ?? lastSegment(directory) };
  });
  return root.skills.flatMap(({ instructions, metadata }) => {
    const { path, contents } = instructions;
    try {
      const { name, description, shortDescription } = skillHead(contents);
      const own = name ?? textOfName(lastName(parentPath(pathFromUri(path))));
      const [nearest] = namespaces
        .filter(({ directory }) => path.startsWith(`${directory}/`))
        .sort((one, other) => other.directory.length - one.directory.length);
      const fullName = nearest === undefined ? own : `${nearest.name}:${own}`;
      const extras = skillExtras(metadata?.contents ?? null);
      return [{ name: fullName, description, shortDescription, path, ...extras }];
    } catch (error) {
      if (!(error instanceof YamlError)) throw error;
      warnings.push(`skill ${path} is left out: ${error.message}`);
      return [];
    }
  });
}

/** The names of the directories in a directory that plugins may have; none when it cannot be listed. */
async function directoriesIn(
  files: FileSystem,
  path: NativePath,
  followSymlinks: boolean,
): Promise<string[]> {
  const entries = (await files.readDirectory(path, { followSymlinks }).catch(noneWhenMissing)) ?? [];
  return entries
    .filter(({ isDirectory, name }) => isDirectory && PLAIN_NAME.test(name))
    .map(({ name }) => name);
}

/** What names of marketplaces, plugins and versions are made of. */
const PLAIN_NAME = /^[A-Za-z0-9_+-][A-Za-z0-9_.+-]*$/;

function noneWhenMissing(error: unknown): null {
  if (!(error instanceof FileError)) throw error;
  return null;
}

function lastSegment(uri: string): string {
  return textOfName(lastName(pathFromUri(uri)));
}

/** Half a surrogate pair can stand in JSON, but no client could read an answer with one. */
function isTextOrNull(value: unknown): value is string | null {
  return value === null || (typeof value === 'string' && !/\p{Surrogate}/u.test(value));
}
