import { forEachBounded } from '../../base/for-each-bounded.ts';
import { refused } from '../errors.ts';
import type { FileSystem } from '../file-system.ts';
import { DISCOVERY_ANSWER_BYTES, DISCOVERY_ROOT_CONCURRENCY, MAX_DISCOVERY_ROOTS } from '../limits.ts';
import type { NativePath } from '../native-path.ts';
import { PathUriError, pathFromUri, spelledUri } from '../path-uri.ts';
import { Budget, type LinkRule } from './file-bundle.ts';
import { type DiscoveredRoot, discoverRoot, failedRoot } from './root.ts';

/** A directory that may contain a plugin, skills, or both. `path` is a `file:` URI. */
interface CapabilityRoot {
  readonly id: string;
  readonly path: string;
  /** Used for this root instead of the common file system. */
  readonly files?: FileSystem;
}

/**
 * Discovers what the roots offer, in their order. An unusable root reports its error in its own result. Links that lead out of a
 * root are skipped with a warning, unless `links` is `follow`. Throws {@link PathUriError} when a path is not a URI, and the
 * signal's reason when it is aborted.
 */
export async function discoverCapabilityRoots(
  files: FileSystem,
  roots: readonly CapabilityRoot[],
  signal: AbortSignal,
  links: LinkRule = 'contain',
): Promise<DiscoveredRoot[]> {
  checkRootCount(roots);
  const answer = new Budget(DISCOVERY_ANSWER_BYTES, 'capability discovery answer');
  const locations = roots.map(({ path }) => parseRoot(path));
  const results = new Array<DiscoveredRoot>(roots.length);
  await forEachBounded(roots.keys(), DISCOVERY_ROOT_CONCURRENCY, async (index) => {
    const { id, files: rootFiles = files } = roots[index]!;
    const { uri, path, problem } = locations[index]!;
    results[index] =
      path === null
        ? failedRoot(id, uri, `failed to inspect capability root ${uri}: ${problem}`)
        : await discoverRoot({ id, uri, path }, { files: rootFiles, answer, links }, signal);
  });
  return results;
}

interface ParsedRoot {
  readonly uri: string;
  /** Null when the URI belongs to another operating system. */
  readonly path: NativePath | null;
  readonly problem: string | null;
}

function parseRoot(text: string): ParsedRoot {
  const uri = spelledUri(text);
  try {
    return { uri, path: pathFromUri(text), problem: null };
  } catch (error) {
    if (!(error instanceof PathUriError) || error.kind === 'syntax') throw error;
    return { uri, path: null, problem: error.message };
  }
}

/** Throws FileError for too many roots. Callers that prepare the roots check before. */
export function checkRootCount(roots: readonly unknown[]): void {
  if (roots.length <= MAX_DISCOVERY_ROOTS) return;
  throw refused(`capability root discovery accepts at most ${MAX_DISCOVERY_ROOTS} roots`);
}
