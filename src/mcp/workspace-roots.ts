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
 * server was started. With `confineRoots` roots of the client count only within the others. `own` are the roots of the user, without
 * links. The result has none either. Throws NoWorkspaceError when only the root directory is left, because a sandbox that may write
 * everything is none, and when a directory has been replaced by a link.
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
  if (sandbox !== 'off') for (const path of fallback) requireUnchanged(path);
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

/** Another session may have moved the directory and put a link in its place. */
function requireUnchanged(path: string): void {
  let real: string;
  try {
    real = realpathSync(path);
  } catch {
    return; // A directory that does not exist grants nothing.
  }
  if (real === path) return;
  throw new NoWorkspaceError(
    `The workspace ${path} leads elsewhere now: to ${real}. Nothing was done. Tell the user, who can restore the directory, or restart exec-server mcp.`,
  );
}

/**
 * The directory of a `file:` URI, without links: one within a root may lead anywhere, and change later. Nothing for one that does not
 * exist here, and for the root directory, which no client may choose.
 */
function nativeDirectory(uri: string): string[] {
  try {
    const path = realpathSync(fileURLToPath(uri));
    return path !== '/' && statSync(path).isDirectory() ? [path] : [];
  } catch {
    return [];
  }
}

/** Both paths are without links. */
function isWithin(path: string, root: string): boolean {
  return path === root || root === '/' || path.startsWith(`${root}/`);
}
