/**
 * A sandbox without its working directory and workspace roots, where no rule of it depends on them: executors refuse directories
 * that they do not know, even when nothing is made of them. A sandbox of an unknown form stays as it is.
 */
export function trimSandbox(sandbox: unknown): unknown {
  if (!isRecord(sandbox) || !isRecord(sandbox.permissions)) return sandbox;
  const files = sandbox.permissions.file_system;
  const entries = isRecord(files) && Array.isArray(files.entries) ? files.entries : [];
  if (entries.some(dependsOnPlace)) return sandbox;
  const { cwd: _cwd, workspaceRoots: _roots, ...rest } = sandbox;
  return rest;
}

function dependsOnPlace(entry: unknown): boolean {
  const path = isRecord(entry) ? entry.path : null;
  if (!isRecord(path)) return true;
  if (path.type === 'glob_pattern') return !isAbsolute(path.pattern);
  return path.type === 'special' && isRecord(path.value) && PLACES.has(path.value.kind);
}

/** What stands for the workspace roots; the second is the older name. */
const PLACES = new Set<unknown>(['project_roots', 'current_working_directory']);

function isAbsolute(pattern: unknown): boolean {
  return typeof pattern === 'string' && /^(?:[/\\]|[A-Za-z]:[/\\])/.test(pattern);
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
