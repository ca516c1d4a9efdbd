import { childPath, type NativePath, parentPath } from '../native-path.ts';
import { pathFromUri } from '../path-uri.ts';
import type { FileBundle } from './file-bundle.ts';
import type { DiscoveredRoot } from './root.ts';

/** The skills whose instructions can be read, each with its metadata. */
export async function readSkills(
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
