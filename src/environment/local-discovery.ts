import type { CallOptions, CapabilityDiscovery, DiscoveredRoot, DiscoveryRoot } from '../client/backend.ts';
import { discoverCapabilityRoots } from '../files/capability-discovery/discover.ts';
import { PathUriError, pathFromUri } from '../files/path-uri.ts';
import type { LocalConfinement } from './local-confinement.ts';
import type { LocalExecutorFileSystem } from './local-file-system.ts';

/** Looks at capability roots of this machine. */
export class LocalDiscovery implements CapabilityDiscovery {
  readonly #files: LocalExecutorFileSystem;
  readonly #confinement: LocalConfinement;

  /** What was written through `files` before is seen, whether or not the caller waited for that. */
  constructor(files: LocalExecutorFileSystem, confinement: LocalConfinement) {
    this.#files = files;
    this.#confinement = confinement;
  }

  async discover(
    roots: readonly DiscoveryRoot[],
    options: CallOptions = {},
  ): Promise<readonly DiscoveredRoot[]> {
    const paths = roots.map(({ path }) => path).filter(isHere);
    return this.#files.whileReading(paths, options, (unwanted) => {
      const places = roots.map((root) => ({ ...root, files: this.#confinement.files(root.sandbox, 'read') }));
      return discoverCapabilityRoots(this.#confinement.files(null, 'read'), places, unwanted);
    });
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
