import { discoverCapabilityRoots } from '../../files/capability-discovery/discover.ts';
import type { NativePath } from '../../files/native-path.ts';
import { PathUriError, pathFromUri } from '../../files/path-uri.ts';
import { invalidParams, printable } from '../../protocol/errors.ts';
import type { Handlers } from '../../rpc/router.ts';
import { refuseSandbox } from './path-params.ts';
import type { HandlerServices } from './services.ts';

/** What directories offer to an agent. */
export function capabilityHandlers({ files }: HandlerServices): Pick<Handlers, 'capabilityRoots/discoverV1'> {
  return {
    'capabilityRoots/discoverV1': ({ roots }, { park }) => {
      roots.forEach(refuseSandbox);
      const paths = roots.flatMap(({ path }, index) => pathHere(path, index) ?? []);
      return files.order.run(paths, 'read', park, async () => ({
        roots: await discoverCapabilityRoots(files.fileSystem, roots, files.ended),
      }));
    },
  };
}

/** Null for a path of another kind of host, which is an error of its root and not of the request. */
function pathHere(uri: string, index: number): NativePath | null {
  try {
    return pathFromUri(uri);
  } catch (error) {
    if (!(error instanceof PathUriError)) throw error;
    if (error.kind === 'foreign') return null;
    throw invalidParams(`params.roots.${index}.path: ${printable(error.message)}`);
  }
}
