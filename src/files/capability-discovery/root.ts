import type { ResultOf } from '../../protocol/registry.ts';
import { FileError } from '../errors.ts';
import type { FileSystem } from '../file-system.ts';
import { childPath, type NativePath, parentPath } from '../native-path.ts';
import { pathFromUri } from '../path-uri.ts';
import { type Budget, FileBundle, type LinkRule, limitWarnings } from './file-bundle.ts';
import { findPlugin } from './plugin.ts';
import { scanRoot } from './scan.ts';

export type DiscoveredRoot = ResultOf<'capabilityRoots/discoverV1'>['roots'][number];

/** A directory to search, and its id and URI in responses. */
interface RootLocation {
  readonly id: string;
  readonly uri: string;
  readonly path: NativePath;
}

/** What the search of a root uses. */
export interface Lookup {
  readonly files: FileSystem;
  /** The byte budget of all roots of a response. */
  readonly answer: Budget;
  readonly links: LinkRule;
}

/** Discovers what a root offers. An unusable root reports its error in the result. */
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
    const warnings = limitWarnings(bundle.warnings);
    return { id, path: uri, plugin, skills, namespaceManifests, warnings, error: null };
  } catch (error) {
    if (!(error instanceof FileError)) throw error;
    return failedRoot(id, uri, `failed to scan capability root ${uri}: ${error.message}`);
  }
}

/** The result for an unusable root. */
export function failedRoot(id: string, path: string, error: string): DiscoveredRoot {
  return { id, path, plugin: null, skills: [], namespaceManifests: [], warnings: [], error };
}

/** The skills whose instructions can be read, each with its metadata. */
async function readSkills(
  root: NativePath,
  uris: readonly string[],
  bundle: FileBundle,
): Promise<DiscoveredRoot['skills']> {
  const skills: DiscoveredRoot['skills'] = [];
  for (const uri of uris) {
    const path = pathFromUri(uri);
    const instructions = await bundle.read(path, root);
    if (instructions === null) continue;
    const agents = childPath(parentPath(path), 'agents');
    skills.push({ instructions, metadata: await bundle.read(childPath(agents, 'openai.yaml'), root) });
  }
  return skills;
}
