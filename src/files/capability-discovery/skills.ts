import { childPath, parentPath } from '../native-path.ts';
import { pathFromUri } from '../path-uri.ts';
import type { DiscoveredRoot } from './discover.ts';
import type { FileBundle } from './file-bundle.ts';

/** The skills whose instructions can be read, each with its metadata. */
export async function readSkills(
  uris: readonly string[],
  bundle: FileBundle,
): Promise<DiscoveredRoot['skills']> {
  const skills: DiscoveredRoot['skills'] = [];
  for (const uri of uris) {
    const path = pathFromUri(uri);
    const instructions = await bundle.read(path);
    if (instructions === null) continue;
    const agents = childPath(parentPath(path), 'agents');
    skills.push({ instructions, metadata: await bundle.read(childPath(agents, 'openai.yaml')) });
  }
  return skills;
}
