import type { ResultOf } from '../../protocol/registry.ts';
import { FileError } from '../errors.ts';
import type { FileSystem } from '../file-system.ts';
import type { NativePath } from '../native-path.ts';
import type { Budget } from './budget.ts';
import { FileBundle, type LinkRule } from './file-bundle.ts';
import { findPlugin } from './plugin.ts';
import { scanRoot } from './scan.ts';
import { readSkills } from './skills.ts';

export type DiscoveredRoot = ResultOf<'capabilityRoots/discoverV1'>['roots'][number];

/** A directory to look through, and how answers call it. */
export interface RootLocation {
  readonly id: string;
  readonly uri: string;
  readonly path: NativePath;
}

/** What a root is looked through with. */
export interface Lookup {
  readonly files: FileSystem;
  /** What all roots of an answer may hold together. */
  readonly answer: Budget;
  readonly links: LinkRule;
}

/** What a root offers. One that cannot be used says so in the result. */
export async function discoverRoot(
  { id, uri, path }: RootLocation,
  { files, answer, links }: Lookup,
  signal: AbortSignal,
): Promise<DiscoveredRoot> {
  try {
    const { isDirectory } = await files.getMetadata(path, { followSymlinks: true });
    if (!isDirectory) return failedRoot(id, uri, `capability root ${uri} is not a directory`);
  } catch (error) {
    if (!(error instanceof FileError)) throw error;
    return failedRoot(id, uri, `failed to inspect capability root ${uri}: ${error.message}`);
  }
  const bundle = new FileBundle(files, answer, links, signal);
  try {
    const found = await scanRoot(files, path, links, signal);
    bundle.warnings.push(...found.problems);
    if (found.truncated) {
      bundle.warnings.push(`capability scan reached its traversal limit (root: ${uri})`);
    }
    const { plugin, namespaceManifests } = await findPlugin(path, found.manifests, bundle);
    const skills = await readSkills(path, found.skills, bundle);
    return { id, path: uri, plugin, skills, namespaceManifests, warnings: bundle.warnings, error: null };
  } catch (error) {
    if (!(error instanceof FileError)) throw error;
    return failedRoot(id, uri, `failed to scan capability root ${uri}: ${error.message}`);
  }
}

/** A root of which nothing can be told but why. */
export function failedRoot(id: string, path: string, error: string): DiscoveredRoot {
  return { id, path, plugin: null, skills: [], namespaceManifests: [], warnings: [], error };
}
