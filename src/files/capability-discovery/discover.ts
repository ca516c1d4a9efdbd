import type { ResultOf } from '../../protocol/registry.ts';
import { forEachBounded } from '../bounded.ts';
import { FileError, refused } from '../errors.ts';
import type { FileSystem } from '../file-system.ts';
import { DISCOVERY_ANSWER_BYTES, DISCOVERY_ROOTS_AT_ONCE, MAX_DISCOVERY_ROOTS } from '../limits.ts';
import type { NativePath } from '../native-path.ts';
import { PathUriError, pathFromUri, spelledUri } from '../path-uri.ts';
import { Budget } from './budget.ts';
import { FileBundle } from './file-bundle.ts';
import { findPlugin } from './plugin.ts';
import { scanRoot } from './scan.ts';
import { readSkills } from './skills.ts';

/** A directory that may hold a plugin, skills, or both. `path` is a `file:` URI. */
export interface CapabilityRoot {
  readonly id: string;
  readonly path: string;
}

export type DiscoveredRoot = ResultOf<'capabilityRoots/discoverV1'>['roots'][number];

/**
 * What the roots offer, in their order. A root that cannot be used says so in its own result and does not disturb the others.
 * Throws {@link PathUriError} when a path is no URI at all, and the signal's reason once it is aborted.
 */
export async function discoverCapabilityRoots(
  files: FileSystem,
  roots: readonly CapabilityRoot[],
  signal: AbortSignal,
): Promise<DiscoveredRoot[]> {
  if (roots.length > MAX_DISCOVERY_ROOTS) {
    throw refused(`capability root discovery accepts at most ${MAX_DISCOVERY_ROOTS} roots`);
  }
  const answer = new Budget(DISCOVERY_ANSWER_BYTES, 'capability discovery answer');
  const places = roots.map(({ path }) => placeOf(path));
  const results = new Array<DiscoveredRoot>(roots.length);
  await forEachBounded(roots.keys(), DISCOVERY_ROOTS_AT_ONCE, async (index) => {
    const bundle = new FileBundle(files, answer, signal);
    results[index] = { id: roots[index]!.id, ...(await discoverRoot(files, places[index]!, bundle, signal)) };
  });
  return results;
}

interface Place {
  readonly uri: string;
  /** Null when the URI is one of another kind of host. */
  readonly path: NativePath | null;
  readonly problem: string | null;
}

function placeOf(text: string): Place {
  const uri = spelledUri(text);
  try {
    return { uri, path: pathFromUri(text), problem: null };
  } catch (error) {
    if (!(error instanceof PathUriError) || error.kind === 'syntax') throw error;
    return { uri, path: null, problem: error.message };
  }
}

async function discoverRoot(
  files: FileSystem,
  { uri, path, problem }: Place,
  bundle: FileBundle,
  signal: AbortSignal,
): Promise<Omit<DiscoveredRoot, 'id'>> {
  if (path === null) return failed(uri, `failed to inspect capability root ${uri}: ${problem}`);
  try {
    const { isDirectory } = await files.getMetadata(path, { followSymlinks: true });
    if (!isDirectory) return failed(uri, `capability root ${uri} is not a directory`);
  } catch (error) {
    if (!(error instanceof FileError)) throw error;
    return failed(uri, `failed to inspect capability root ${uri}: ${error.message}`);
  }
  try {
    const found = await scanRoot(files, path, signal);
    bundle.warnings.push(...found.problems);
    if (found.truncated) {
      bundle.warnings.push(`capability scan reached its traversal limit (root: ${uri})`);
    }
    const { plugin, namespaceManifests } = await findPlugin(path, found.manifests, bundle);
    const skills = await readSkills(found.skills, bundle);
    return { path: uri, plugin, skills, namespaceManifests, warnings: bundle.warnings, error: null };
  } catch (error) {
    if (!(error instanceof FileError)) throw error;
    return failed(uri, `failed to scan capability root ${uri}: ${error.message}`);
  }
}

function failed(path: string, error: string): Omit<DiscoveredRoot, 'id'> {
  return { path, plugin: null, skills: [], namespaceManifests: [], warnings: [], error };
}
