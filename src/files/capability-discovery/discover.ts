import { forEachBounded } from '../../base/for-each-bounded.ts';
import { refused } from '../errors.ts';
import type { FileSystem } from '../file-system.ts';
import { DISCOVERY_ANSWER_BYTES, DISCOVERY_ROOT_CONCURRENCY, MAX_DISCOVERY_ROOTS } from '../limits.ts';
import type { NativePath } from '../native-path.ts';
import { PathUriError, pathFromUri, spelledUri } from '../path-uri.ts';
import { Budget } from './budget.ts';
import type { LinkRule } from './file-bundle.ts';
import { type DiscoveredRoot, discoverRoot, failedRoot } from './root.ts';

/** A directory that may hold a plugin, skills, or both. `path` is a `file:` URI. */
export interface CapabilityRoot {
  readonly id: string;
  readonly path: string;
  /** The files to look through in place of those given for all roots. */
  readonly files?: FileSystem;
}

/**
 * What the roots offer, in their order. A root that cannot be used says so in its own result and does not disturb the others.
 * Links that lead out of a root are left out with a warning, unless `links` says otherwise. Throws {@link PathUriError} when a path is
 * no URI at all, and the signal's reason once it is aborted.
 */
export async function discoverCapabilityRoots(
  files: FileSystem,
  roots: readonly CapabilityRoot[],
  signal: AbortSignal,
  links: LinkRule = 'contain',
): Promise<DiscoveredRoot[]> {
  if (roots.length > MAX_DISCOVERY_ROOTS) {
    throw refused(`capability root discovery accepts at most ${MAX_DISCOVERY_ROOTS} roots`);
  }
  const answer = new Budget(DISCOVERY_ANSWER_BYTES, 'capability discovery answer');
  const places = roots.map(({ path }) => placeOf(path));
  const results = new Array<DiscoveredRoot>(roots.length);
  await forEachBounded(roots.keys(), DISCOVERY_ROOT_CONCURRENCY, async (index) => {
    const { id, files: rootFiles = files } = roots[index]!;
    const { uri, path, problem } = places[index]!;
    results[index] =
      path === null
        ? failedRoot(id, uri, `failed to inspect capability root ${uri}: ${problem}`)
        : await discoverRoot({ id, uri, path }, { files: rootFiles, answer, links }, signal);
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
