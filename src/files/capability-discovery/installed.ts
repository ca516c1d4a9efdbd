import { setImmediate as nextTurn } from 'node:timers/promises';
import { forEachBounded } from '../../base/for-each-bounded.ts';
import type { ResultOf } from '../../protocol/registry.ts';
import { FileError } from '../errors.ts';
import type { ConfigLocations } from '../executor-config/config-locations.ts';
import type { FileSystem } from '../file-system.ts';
import {
  DISCOVERY_ANSWER_BYTES,
  DISCOVERY_ROOT_CONCURRENCY,
  DISCOVERY_WARNING_BYTES,
  MAX_DISCOVERY_ROOTS,
} from '../limits.ts';
import { childPath, isWithin, type NativePath, textOfName } from '../native-path.ts';
import { uriFromPath } from '../path-uri.ts';
import { Budget, type LinkRule, limitWarnings } from './file-bundle.ts';
import { type DiscoveredRoot, discoverRoot, type Lookup } from './root.ts';
import { type InstalledSkill, lastSegment, manifestOf, skillsOf } from './skills.ts';
import { newestVersion } from './versions.ts';

type InstalledCapabilities = ResultOf<'capabilities/discoverV2'>;
type InstalledPlugin = InstalledCapabilities['plugins'][number];

/**
 * Finds what is installed for the user of this machine: the newest version of each plugin, and the skills in the well-known
 * directories. The disk is read on every call. Unusable items, and items beyond the limit of a response, are skipped with a warning.
 */
export async function discoverInstalled(
  files: FileSystem,
  locations: ConfigLocations,
  signal: AbortSignal,
  links: LinkRule = 'contain',
): Promise<InstalledCapabilities> {
  const warnings: string[] = [];
  const lookup = { files, answer: newBudget(), links };
  // The files that are read are not those of the response: a skill is a part of its file, and inline servers are copied.
  const answer = newBudget();
  answer.use(DISCOVERY_WARNING_BYTES);
  const cache = childPath(childPath(locations.codexHome, 'plugins'), 'cache');
  const plugins = await discoverPlugins(
    await installedPlugins(lookup, cache, warnings),
    lookup,
    answer,
    warnings,
    signal,
  );
  const skills: InstalledSkill[] = [];
  for (const { id, path } of skillRoots(locations)) {
    const uri = uriFromPath(path);
    const root = await discoverRoot({ id, uri, path }, lookup, signal);
    warnings.push(...root.warnings);
    skills.push(...(await skillsOf(root, answer, warnings, { id, path: uri })));
  }
  return { plugins, skills, warnings: limitWarnings(warnings) };
}

function newBudget(): Budget {
  return new Budget(DISCOVERY_ANSWER_BYTES, 'capability discovery answer');
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

/**
 * Plugins are at `MARKETPLACE/PLUGIN/VERSION` below the cache. A plugin may be a link within the cache, to the directory where it
 * is developed.
 */
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
    warnings.push(`only ${MAX_DISCOVERY_ROOTS} of ${found.length} plugins are listed`);
  }
  return found.sort((one, other) => (one.id < other.id ? -1 : 1)).slice(0, MAX_DISCOVERY_ROOTS);
}

async function discoverPlugins(
  locations: readonly PluginLocation[],
  lookup: Lookup,
  answer: Budget,
  warnings: string[],
  signal: AbortSignal,
): Promise<InstalledPlugin[]> {
  const found = new Array<DiscoveredRoot>(locations.length);
  await forEachBounded(locations.keys(), DISCOVERY_ROOT_CONCURRENCY, async (index) => {
    const { id, path } = locations[index]!;
    found[index] = await discoverRoot({ id, path, uri: uriFromPath(path) }, lookup, signal);
  });
  const plugins: InstalledPlugin[] = [];
  for (const [index, location] of locations.entries()) {
    await nextTurn();
    const plugin = await pluginOf(location, found[index]!, answer, warnings);
    if (plugin !== null) plugins.push(plugin);
  }
  return plugins;
}

async function pluginOf(
  { id, version }: PluginLocation,
  root: DiscoveredRoot,
  answer: Budget,
  warnings: string[],
): Promise<InstalledPlugin | null> {
  warnings.push(...root.warnings);
  const manifest = root.plugin && manifestOf(root.plugin.manifest.contents);
  if (root.plugin === null || manifest == null) {
    warnings.push(root.error ?? `plugin ${root.path} has no usable manifest`);
    return null;
  }
  const { mcpServers, name, displayName } = manifest;
  // Clients read declared and inline servers from the same field.
  const inline = mcpServers && { path: root.plugin.manifest.path, contents: mcpServers };
  const plugin = {
    id: textOfName(id),
    displayName: displayName ?? name ?? lastSegment(root.path),
    remotePluginId: null,
    version: textOfName(version),
    root: root.path,
    files: { ...root.plugin, ...(inline && { mcpConfig: inline }) },
  };
  const objection = answer.useJson(plugin);
  if (objection !== null) {
    warnings.push(`plugin ${root.path} is skipped: ${objection}`);
    return null;
  }
  return { ...plugin, skills: await skillsOf(root, answer, warnings) };
}

/** The names of subdirectories that are valid for plugins; empty when the directory cannot be listed. */
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

/** The valid names of marketplaces, plugins and versions. */
const PLAIN_NAME = /^[A-Za-z0-9_+-][A-Za-z0-9_.+-]*$/;

function noneWhenMissing(error: unknown): null {
  if (!(error instanceof FileError)) throw error;
  return null;
}
