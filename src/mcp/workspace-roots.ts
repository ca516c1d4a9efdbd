import { realpathSync, statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { shownName } from '../agent/toolset/text/visible.ts';
import { MAX_CLIENT_ROOTS, MAX_SHOWN_ROOT_CHARS, MAX_SHOWN_ROOTS } from './limits.ts';
import type { McpOptions } from './options.ts';

/** There is no directory that the tools may use as their workspace. The message is for the model. */
export class NoWorkspaceError extends Error {
  override readonly name = 'NoWorkspaceError';
}

/** The workspace on this machine, and what became of the roots of the client. */
export interface ChosenRoots {
  readonly roots: readonly string[];
  /** Why roots of the client are not used, in sentences for the model. Null when all are. */
  readonly unused: string | null;
  /** Whether the first root of the client is not used, so that the tools work in another directory than it expects. */
  readonly isElsewhere: boolean;
}

/**
 * Chooses the workspace on this machine: the roots that the client names, else those of the user, else the directory in which the
 * server was started. With `confineRoots` roots of the client count only within the others. `own` are the roots of the user, without
 * links. The result has none either. Throws NoWorkspaceError when only the root directory is left, because a sandbox that may write
 * everything is none; when a directory has been replaced by a link; and when the client names only roots that cannot be used and the
 * user has not chosen others.
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
): ChosenRoots {
  const fallback = own.length > 0 ? own : [directory];
  if (sandbox !== 'off') for (const path of fallback) requireUnchanged(path);
  const isConfined = confineRoots || own.length > 0;
  const checked = clientRoots
    .slice(0, MAX_CLIENT_ROOTS)
    .map((uri) => checkedRoot(uri, isConfined ? fallback : null));
  const allowed = checked.flatMap((root) => ('path' in root ? [root.path] : []));
  const unused = unusedText(checked, clientRoots.length);
  if (unused !== null) log.warn('roots of the client are not used', { reason: unused });
  if (allowed.length > 0) return { roots: allowed, unused, isElsewhere: !('path' in checked[0]!) };
  if (unused !== null && !isConfined) {
    throw new NoWorkspaceError(
      `There is no workspace: the client names no directory that can be used. ${unused} Nothing was done. Tell the user to correct that, or to add --root DIR to the arguments of exec-server mcp.`,
    );
  }
  if (own.length === 0 && directory === '/' && sandbox === 'workspace-write') {
    throw new NoWorkspaceError(
      'There is no workspace: the client names no roots, and exec-server was started in the directory "/". Tell the user to add --root DIR to the arguments of exec-server mcp.',
    );
  }
  return { roots: fallback, unused, isElsewhere: unused !== null };
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

/** A root of the client: its directory, or why it is not used. */
type CheckedRoot = { readonly path: string } | { readonly name: string; readonly problem: string };

/**
 * Checks a root of the client. Its directory is without links: one within a root may lead anywhere, and change later. `within` are the
 * directories that it must be in; null for any but the root directory, which no client may choose.
 */
function checkedRoot(uri: string, within: readonly string[] | null): CheckedRoot {
  let name = shownName(uri.slice(0, MAX_SHOWN_ROOT_CHARS));
  try {
    const native = fileURLToPath(uri);
    name = shownName(native.slice(0, MAX_SHOWN_ROOT_CHARS));
    const path = realpathSync(native);
    if (!statSync(path).isDirectory()) return { name, problem: 'is not a directory' };
    if (path === '/') return { name, problem: 'is the root directory, which a client may not choose' };
    if (within === null || within.some((root) => isWithin(path, root))) return { path };
    return { name, problem: `is outside of ${within.map(shownName).join(', ')}` };
  } catch (error) {
    return { name, problem: problemOf(error as NodeJS.ErrnoException) };
  }
}

function problemOf({ code = '' }: NodeJS.ErrnoException): string {
  if (code === 'ENOENT' || code === 'ENOTDIR') return 'does not exist on the machine of exec-server';
  if (code.startsWith('ERR_INVALID')) return 'is not a file: URI of a directory of this machine';
  return `cannot be opened (${code})`;
}

/** Why roots are not used; null when all are. */
function unusedText(checked: readonly CheckedRoot[], given: number): string | null {
  const refused = checked.flatMap((root) => ('path' in root ? [] : [root]));
  const shown = refused
    .slice(0, MAX_SHOWN_ROOTS)
    .map(({ name, problem }) => `The root ${name} of the client is not used: it ${problem}.`);
  const others = refused.length - shown.length;
  if (others > 0) shown.push(`${others} other roots of the client cannot be used either.`);
  if (given > checked.length) shown.push(`Only the first ${checked.length} roots of the client count.`);
  return shown.length === 0 ? null : shown.join(' ');
}

/** Both paths are without links. */
function isWithin(path: string, root: string): boolean {
  return path === root || root === '/' || path.startsWith(`${root}/`);
}
