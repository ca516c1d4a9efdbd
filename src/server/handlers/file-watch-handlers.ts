import { WATCH_DEFAULT_DEBOUNCE_MS } from '../../files/limits.ts';
import type { NativePath } from '../../files/native-path.ts';
import { PathUriError, pathFromUri } from '../../files/path-uri.ts';
import type { Handlers } from '../../rpc/router.ts';
import { pathParam, uriOfPath } from './params.ts';
import type { HandlerServices } from './services.ts';

type FileWatchMethod = `fs/${'watchMissing' | 'watch' | 'unwatch'}`;

/** Methods that send notifications about later changes. */
export function fileWatchHandlers({
  files,
  config,
  connection,
}: HandlerServices): Pick<Handlers, FileWatchMethod> {
  return {
    'fs/watchMissing': async ({ watchId, missing, present }) => {
      files.requireAllReadable({}, 'fs/watchMissing');
      const paths = present == null ? missing : [...missing, present];
      const native = nativePaths(paths.map((path) => uriOfPath(path, config)));
      const changed = () => connection.notify('fs/missingChanged', { watchId });
      const watching = await (await files.missing).arm(
        watchId,
        native?.slice(0, missing.length) ?? null,
        native?.[missing.length] ?? null,
        changed,
      );
      return { watching };
    },

    'fs/watch': async (params) => {
      files.requireAllReadable(params, 'fs/watch');
      const path = pathParam(params, 'path', config);
      const { watchId, recursive, exclude, debounceMs } = params;
      await (await files.watches).watch(watchId, path, {
        recursive: recursive ?? true,
        exclude: exclude ?? [],
        debounceMs: debounceMs ?? WATCH_DEFAULT_DEBOUNCE_MS,
      });
      return { watchId };
    },

    'fs/unwatch': async ({ watchId }) => {
      (await files.watches).unwatch(watchId);
      return {};
    },
  };
}

/** Null when a URI is a path of another operating system, which is not an error. Throws PathUriError for an invalid URI. */
function nativePaths(uris: readonly string[]): NativePath[] | null {
  try {
    return uris.map((uri) => pathFromUri(uri));
  } catch (error) {
    if (error instanceof PathUriError && error.kind === 'foreign') return null;
    throw error;
  }
}
