import { discoverCapabilityRoots } from '../../files/capability-discovery/discover.ts';
import type { LinkRule } from '../../files/capability-discovery/file-bundle.ts';
import { refused } from '../../files/errors.ts';
import type { FileSystem } from '../../files/file-system.ts';
import { deferFileSystem } from '../../files/file-system-wrappers.ts';
import type { NativePath } from '../../files/native-path.ts';
import { PathUriError, pathFromUri } from '../../files/path-uri.ts';
import { invalidParams, printable } from '../../protocol/errors.ts';
import type { Handlers } from '../../rpc/router.ts';
import { SandboxError } from '../../sandbox/errors.ts';
import type { HandlerServices } from './services.ts';

type CapabilityMethod = 'capabilityRoots/discoverV1' | 'capabilities/discoverV2';

/** What directories, and what is installed on this machine, offer to an agent. */
export function capabilityHandlers({ files, config }: HandlerServices): Pick<Handlers, CapabilityMethod> {
  /** A sandbox that is not meant for this host is an error of its root, like a path that is not. */
  const filesOf = (root: Parameters<typeof files.under>[0]): FileSystem => {
    try {
      return files.under(root, 'read');
    } catch (error) {
      if (!(error instanceof SandboxError) || error.kind === 'invalid') throw error;
      return deferFileSystem(() => Promise.reject(refused(error.message)));
    }
  };
  const links: LinkRule = config.followDiscoveryLinks ? 'follow' : 'contain';
  return {
    'capabilityRoots/discoverV1': ({ roots }, { park }) => {
      const places = roots.map((root) => ({ ...root, files: filesOf(root) }));
      const paths = roots.flatMap(({ path }, index) => pathHere(path, `roots.${index}.path`) ?? []);
      return files.order.run(paths, 'read', park, async () => ({
        roots: await discoverCapabilityRoots(files.under({}, 'read'), places, files.ended, links),
      }));
    },

    // Few clients ask for it, so that what answers them is loaded when one does.
    'capabilities/discoverV2': async (params) => {
      pathHere(params.cwd, 'cwd');
      const fileSystem = files.under(params, 'read');
      await files.changesDone();
      const [{ discoverInstalled }, { findConfigLocations }] = await Promise.all([
        import('../../files/capability-discovery/installed.ts'),
        import('../../files/executor-config/config-locations.ts'),
      ]);
      const places = await findConfigLocations(fileSystem, process.env);
      return discoverInstalled(fileSystem, places, files.ended, links);
    },
  };
}

/** Null for a path of another kind of host, which is no error of the request. */
function pathHere(uri: string, name: string): NativePath | null {
  try {
    return pathFromUri(uri);
  } catch (error) {
    if (!(error instanceof PathUriError)) throw error;
    if (error.kind === 'foreign') return null;
    throw invalidParams(`params.${name}: ${printable(error.message)}`);
  }
}
