import type { CallOptions, CapabilityDiscovery, DiscoveredRoot, DiscoveryRoot } from '../client/backend.ts';
import { discoverCapabilityRoots } from '../files/capability-discovery/discover.ts';
import { LOCAL_FILE_SYSTEM } from '../files/local/local-file-system.ts';
import { PathUriError, pathFromUri } from '../files/path-uri.ts';
import { refuseSandbox } from './local-errors.ts';
import type { LocalExecutorFileSystem } from './local-file-system.ts';

/** Looks at capability roots of this machine. */
export class LocalDiscovery implements CapabilityDiscovery {
  readonly #files: LocalExecutorFileSystem;

  /** What was written through `files` before is seen, whether or not the caller waited for that. */
  constructor(files: LocalExecutorFileSystem) {
    this.#files = files;
  }

  async discover(
    roots: readonly DiscoveryRoot[],
    options: CallOptions = {},
  ): Promise<readonly DiscoveredRoot[]> {
    roots.forEach(refuseSandbox);
    const paths = roots.map(({ path }) => path).filter(isHere);
    return this.#files.whileReading(paths, options, (unwanted) =>
      discoverCapabilityRoots(LOCAL_FILE_SYSTEM, roots, unwanted),
    );
  }
}

/** A path of another kind of host is an error of its root and not of the call. */
function isHere(uri: string): boolean {
  try {
    pathFromUri(uri);
    return true;
  } catch (error) {
    return !(error instanceof PathUriError && error.kind === 'foreign');
  }
}
