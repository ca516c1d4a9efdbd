import type { FileSystem } from '../file-system.ts';
import { DISCOVERY_MAX_DEPTH, DISCOVERY_MAX_DIRECTORIES, DISCOVERY_MAX_ENTRIES } from '../limits.ts';
import type { NativePath } from '../native-path.ts';
import type { LinkRule } from './file-bundle.ts';

/** Directories that may contain the manifest of a plugin. The first existing one counts. */
export const MANIFEST_FOLDERS: readonly string[] = ['.codex-plugin', '.claude-plugin', '.cursor-plugin'];

/** The file name of the manifest. */
export const MANIFEST_NAME = 'plugin.json';

/** A manifest, the directory of its plugin, and its index in {@link MANIFEST_FOLDERS}. */
export interface FoundManifest {
  readonly uri: string;
  readonly pluginRoot: string;
  readonly priority: number;
}

interface Scan {
  /** URIs, sorted. */
  readonly skills: readonly string[];
  /** By plugin root, then by priority. */
  readonly manifests: readonly FoundManifest[];
  /** Messages about paths that could not be read. */
  readonly problems: readonly string[];
  readonly truncated: boolean;
}

/**
 * Finds skills and manifests below a directory. Links to directories are followed according to `links`; hidden directories are
 * entered.
 */
export async function scanRoot(
  files: FileSystem,
  root: NativePath,
  links: LinkRule,
  signal: AbortSignal,
): Promise<Scan> {
  const within = links === 'contain' ? { linksWithin: await files.canonicalize(root) } : {};
  const { entries, errors, truncated } = await files.walk(root, { ...WALK_OPTIONS, ...within }, signal);
  const uris = entries.filter(({ kind }) => kind === 'file').map(({ uri }) => uri);
  return {
    skills: uris.filter((uri) => uri.endsWith('/SKILL.md')).sort(),
    manifests: uris.flatMap((uri) => manifestAt(uri) ?? []).sort(byRootAndPriority),
    problems: errors.map(({ uri, message }) => `failed to scan capability path ${uri}: ${message}`),
    truncated,
  };
}

const WALK_OPTIONS = {
  maxDepth: DISCOVERY_MAX_DEPTH,
  maxDirectories: DISCOVERY_MAX_DIRECTORIES,
  maxEntries: DISCOVERY_MAX_ENTRIES,
  followDirectorySymlinks: true,
  pruneHiddenDirectories: false,
};

function manifestAt(uri: string): FoundManifest | null {
  if (!uri.endsWith(`/${MANIFEST_NAME}`)) return null;
  const folder = uri.slice(0, -MANIFEST_NAME.length - 1);
  const slash = folder.lastIndexOf('/');
  const priority = MANIFEST_FOLDERS.indexOf(folder.slice(slash + 1));
  return priority < 0 ? null : { uri, pluginRoot: folder.slice(0, slash), priority };
}

function byRootAndPriority(one: FoundManifest, other: FoundManifest): number {
  if (one.pluginRoot === other.pluginRoot) return one.priority - other.priority;
  return one.pluginRoot < other.pluginRoot ? -1 : 1;
}
