import { realpathSync, statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { MAX_CLIENT_ROOTS } from './limits.ts';
import type { McpOptions } from './options.ts';

/** There is no directory that the tools may use as their workspace. The message is for the model. */
export class NoWorkspaceError extends Error {
  override readonly name = 'NoWorkspaceError';
}

/**
 * Chooses the workspace on this machine: the roots that the client names, else those of the user, else the directory in which the
 * server was started. With `confineRoots` roots of the client count only within the others. `own` are the roots of the user. Throws
 * NoWorkspaceError when only the root directory is left, because a sandbox that may write everything is none.
 */
export function chooseRoots(
  clientRoots: readonly string[],
  own: readonly string[],
  {
    directory,
    confineRoots,
    sandbox,
    log,
  }: Pick<McpOptions, 'directory' | 'confineRoots' | 'sandbox' | 'log'>,
): readonly string[] {
  const fallback = own.length > 0 ? own : [directory];
  const named = clientRoots.slice(0, MAX_CLIENT_ROOTS).flatMap((uri) => nativeDirectory(uri));
  const confined = confineRoots || own.length > 0;
  const allowed = named.filter((path) => !confined || fallback.some((root) => isWithin(path, root)));
  if (allowed.length < clientRoots.length) {
    log.warn('roots of the client are not used', { given: clientRoots.length, used: allowed.length });
  }
  if (allowed.length > 0) return allowed;
  if (own.length === 0 && directory === '/' && sandbox === 'workspace-write') {
    throw new NoWorkspaceError(
      'There is no workspace: the client names no roots, and exec-server was started in the directory "/". Tell the user to add --root DIR to the arguments of exec-server mcp.',
    );
  }
  return fallback;
}

/** The directory of a `file:` URI; nothing for one that does not exist here. */
function nativeDirectory(uri: string): string[] {
  try {
    const path = fileURLToPath(uri);
    return statSync(path).isDirectory() ? [path] : [];
  } catch {
    return [];
  }
}

/** Follows links, because a link within a root may lead anywhere. */
function isWithin(path: string, root: string): boolean {
  try {
    const [real, above] = [realpathSync(path), realpathSync(root)];
    return real === above || above === '/' || real.startsWith(`${above}/`);
  } catch {
    return false;
  }
}
