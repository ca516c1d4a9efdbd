import { checkRootCount, discoverCapabilityRoots } from '../../files/capability-discovery/discover.ts';
import type { LinkRule } from '../../files/capability-discovery/file-bundle.ts';
import { refused } from '../../files/errors.ts';
import type { FileSystem } from '../../files/file-system.ts';
import { deferFileSystem } from '../../files/file-system-wrappers.ts';
import type { NativePath } from '../../files/native-path.ts';
import { PathUriError, pathFromUri } from '../../files/path-uri.ts';
import { invalidParams, printable } from '../../protocol/errors.ts';
import { encodeInTurns } from '../../rpc/encode-in-turns.ts';
import type { Handlers } from '../../rpc/router.ts';
import { SandboxError } from '../../sandbox/errors.ts';
import { uriOfPath } from './params.ts';
import type { HandlerServices } from './services.ts';

type CapabilityMethod = 'capabilityRoots/discoverV1' | 'capabilities/discoverV2';

/** Discovers the plugins, skills and other capabilities in directories and in the user's installation. */
export function capabilityHandlers({ files, config }: HandlerServices): Pick<Handlers, CapabilityMethod> {
  /** A sandbox for another operating system is an error of its root, like a path of another operating system. */
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
    'capabilityRoots/discoverV1': (params, { park, maxResultBytes }) => {
      checkRootCount(params.roots);
      const roots = params.roots.map((root) => ({ ...root, path: uriOfPath(root.path, config) }));
      const sandboxedRoots = roots.map((root) => ({ ...root, files: filesOf(root) }));
      const paths = roots.flatMap(({ path }, index) => localPath(path, `roots.${index}.path`) ?? []);
      return files.order.run(paths, 'read', park, async () => {
        const unsandboxed = files.under({}, 'read');
        const found = await discoverCapabilityRoots(unsandboxed, sandboxedRoots, files.ended, links);
        return encodeInTurns({ roots: found }, maxResultBytes());
      });
    },

    // Few clients call this, so its code is loaded on the first call.
    'capabilities/discoverV2': async (params, { maxResultBytes }) => {
      localPath(uriOfPath(params.cwd, config), 'cwd');
      const fileSystem = files.under(params, 'read');
      await files.changesDone();
      const [{ discoverInstalled }, { findConfigLocations }] = await Promise.all([
        import('../../files/capability-discovery/installed.ts'),
        import('../../files/executor-config/config-locations.ts'),
      ]);
      const locations = await findConfigLocations(fileSystem, process.env);
      const found = await discoverInstalled(fileSystem, locations, files.ended, links);
      return encodeInTurns(found, maxResultBytes());
    },
  };
}

/** Null for a path of another operating system, which is not an error of the request. */
function localPath(uri: string, name: string): NativePath | null {
  try {
    return pathFromUri(uri);
  } catch (error) {
    if (!(error instanceof PathUriError)) throw error;
    if (error.kind === 'foreign') return null;
    throw invalidParams(`params.${name}: ${printable(error.message)}`);
  }
}
