import type { CallOptions, CapabilityDiscovery, DiscoveredRoot, DiscoveryRoot } from '../client/backend.ts';
import { discoverCapabilityRoots } from '../files/capability-discovery/discover.ts';
import { LOCAL_FILE_SYSTEM } from '../files/local/local-file-system.ts';
import { locally, refuseSandbox } from './local-errors.ts';

/** Looks at capability roots of this machine. */
export class LocalDiscovery implements CapabilityDiscovery {
  discover(roots: readonly DiscoveryRoot[], options: CallOptions = {}): Promise<readonly DiscoveredRoot[]> {
    return locally('looking at capability roots', options, async (signal) => {
      roots.forEach(refuseSandbox);
      return await discoverCapabilityRoots(LOCAL_FILE_SYSTEM, roots, signal);
    });
  }
}
