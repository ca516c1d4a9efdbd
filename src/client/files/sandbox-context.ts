import { isObject } from '../../base/is-object.ts';
/**
 * Removes the working directory and the workspace roots from a sandbox when no rule depends on them. Executors
 * refuse unknown directories, even unused ones. A sandbox of an unknown form is returned unchanged.
 */
export function trimSandbox(sandbox: unknown): unknown {
  if (!isObject(sandbox) || !isObject(sandbox.permissions)) return sandbox;
  const files = sandbox.permissions.file_system;
  const entries = isObject(files) && Array.isArray(files.entries) ? files.entries : [];
  if (entries.some(dependsOnRoots)) return sandbox;
  const { cwd: _cwd, workspaceRoots: _roots, ...rest } = sandbox;
  return rest;
}

function dependsOnRoots(entry: unknown): boolean {
  const path = isObject(entry) ? entry.path : null;
  if (!isObject(path)) return true;
  if (path.type === 'glob_pattern') return !isAbsolute(path.pattern);
  return path.type === 'special' && isObject(path.value) && ROOT_KINDS.has(path.value.kind);
}

/** Path kinds that stand for the workspace roots; the second is the older name. */
const ROOT_KINDS = new Set<unknown>(['project_roots', 'current_working_directory']);

function isAbsolute(pattern: unknown): boolean {
  return typeof pattern === 'string' && /^(?:[/\\]|[A-Za-z]:[/\\])/.test(pattern);
}
