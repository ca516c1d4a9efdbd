import { isObject } from '../../base/is-object.ts';
import { childPath, type NativePath, nativePathOfText, parentPath } from '../native-path.ts';
import { pathFromUri, uriFromPath } from '../path-uri.ts';
import type { BundledFile, FileBundle } from './file-bundle.ts';
import type { DiscoveredRoot } from './root.ts';
import { type FoundManifest, MANIFEST_FOLDERS, MANIFEST_NAME } from './scan.ts';

type Plugin = Pick<DiscoveredRoot, 'plugin' | 'namespaceManifests'>;

/**
 * The plugin of the root, and the manifests that name the skills below it: its own manifest or that of the nearest ancestor, then
 * one for each nested plugin.
 */
export async function findPlugin(
  root: NativePath,
  found: readonly FoundManifest[],
  bundle: FileBundle,
): Promise<Plugin> {
  // The response contains it as the plugin's manifest and as the first that names skills.
  const own = await readManifest(root, bundle, 2);
  const outer = own === null ? await inheritedManifest(root, bundle) : { directory: root, file: own };
  const namespaceManifests = outer === null ? [] : [outer.file];
  const named = new Set<string>(outer === null ? [] : [uriFromPath(outer.directory)]);
  for (const { uri, pluginRoot } of found) {
    if (named.has(pluginRoot)) continue;
    named.add(pluginRoot);
    const manifest = await bundle.read(pathFromUri(uri), root);
    if (manifest !== null) namespaceManifests.push(manifest);
  }
  return { plugin: own === null ? null : await readPlugin(root, own, bundle), namespaceManifests };
}

async function readPlugin(
  root: NativePath,
  manifest: BundledFile,
  bundle: FileBundle,
): Promise<DiscoveredRoot['plugin']> {
  const { mcpServers, apps } = membersOf(manifest);
  const declared = (name: string, value: unknown, fallback: string) =>
    bundle.read(declaredPath(root, manifest, name, value, bundle) ?? childPath(root, fallback), root);
  return {
    manifest,
    mcpConfig: isObject(mcpServers) ? null : await declared('mcpServers', mcpServers, '.mcp.json'),
    appsConfig: await declared('apps', apps, '.app.json'),
  };
}

/** The path that a manifest declares. Null when it declares none, or an invalid one, which adds a warning. */
function declaredPath(
  root: NativePath,
  manifest: BundledFile,
  name: string,
  value: unknown,
  bundle: FileBundle,
): NativePath | null {
  if (typeof value !== 'string') return null;
  const objection = objectionTo(value);
  if (objection !== null) {
    bundle.warnings.push(`ignoring ${name} in ${manifest.path}: ${objection}`);
    return null;
  }
  const names = nativePathOfText(value)
    .split('/')
    .filter((part) => part !== '' && part !== '.');
  return names.reduce<NativePath>(childPath, root);
}

function objectionTo(declared: string): string | null {
  if (!declared.startsWith('./')) return 'path must start with `./`';
  const rest = declared.slice(2);
  const leaves = rest === '' || rest.startsWith('/') || rest.includes('\0');
  return leaves || rest.split(/[/\\]/).includes('..') ? 'path must remain below the capability root' : null;
}

async function inheritedManifest(
  root: NativePath,
  bundle: FileBundle,
): Promise<{ readonly directory: NativePath; readonly file: BundledFile } | null> {
  let directory = root;
  while (directory !== '/') {
    directory = parentPath(directory);
    const file = await readManifest(directory, bundle);
    if (file !== null) return { directory, file };
  }
  return null;
}

async function readManifest(
  directory: NativePath,
  bundle: FileBundle,
  copies = 1,
): Promise<BundledFile | null> {
  for (const folder of MANIFEST_FOLDERS) {
    const path = childPath(childPath(directory, folder), MANIFEST_NAME);
    const file = await bundle.read(path, directory, copies);
    if (file !== null) return file;
  }
  return null;
}

/** A manifest that is not a JSON object declares nothing. */
function membersOf({ contents }: BundledFile): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(contents);
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}
