import { ClientError } from '../../client/errors.ts';
import { toFileUri, toNativePath } from '../../client/paths.ts';
import type { EnvironmentInfo, SandboxRequest } from '../../environment/index.ts';
import { ToolFailure } from './failure.ts';
import { MAX_PINNED_ROOTS, REQUEST_TIMEOUT_MS } from './limits.ts';
import { shownName } from './text/visible.ts';
import type { ToolEnvironment, ToolSandbox } from './types.ts';

/** An environment with its name for the model. */
export interface NamedEnvironment {
  readonly name: string;
  readonly environment: ToolEnvironment;
  readonly env?: Readonly<Record<string, string>>;
}

/** The roots and the sandbox of the tools. */
export class Workspace {
  readonly sandbox: ToolSandbox;
  readonly #roots = new Map<string, readonly string[]>();

  constructor(sandbox: ToolSandbox) {
    this.sandbox = sandbox;
  }

  /** Sets the roots of an environment. Throws Error for a path that is not absolute, and changes nothing then. */
  setRoots(environment: string, roots: readonly string[]): void {
    this.#roots.set(
      environment,
      roots.map((root) => withoutSlash(toFileUri(root, null))),
    );
  }

  /** The directory of relative paths, a `file:` URI. */
  async directory(target: NamedEnvironment, signal: AbortSignal): Promise<string> {
    return (await this.roots(target, signal))[0]!;
  }

  /** The roots in an environment, `file:` URIs: those that were set, or its default directory. With a sandbox, links are resolved. */
  async roots(target: NamedEnvironment, signal: AbortSignal): Promise<readonly string[]> {
    return (await this.#rootsOf(target, signal)).map(({ real }) => real);
  }

  async #rootsOf(target: NamedEnvironment, signal: AbortSignal): Promise<readonly Root[]> {
    const set = this.#roots.get(target.name) ?? [];
    const named = set.length > 0 ? set : [await defaultDirectory(target, signal)];
    if (this.sandbox === 'off') return named.map((uri) => ({ named: uri, real: uri }));
    const roots = await Promise.all(named.map((uri) => pinnedRoot(uri, target, signal)));
    if (set.length === 0 && this.sandbox === 'workspace-write' && roots[0]!.real === FILE_SYSTEM_ROOT) {
      throw new ToolFailure(
        `There is no workspace: the server of the environment "${target.name}" was started in the directory "/", and a sandbox that may write everything is none. Tell the user to set a root; for exec-server mcp, to add --root ${target.name}:/DIR to its arguments.`,
        { kind: 'permissionDenied' },
      );
    }
    return roots;
  }

  /** The sandbox of a program; null for none. */
  async programSandbox(target: NamedEnvironment, signal: AbortSignal): Promise<SandboxRequest | null> {
    if (this.sandbox === 'off') return null;
    if (this.sandbox === 'read-only') return { type: 'readOnly' };
    const writable = writableEntries(await this.roots(target, signal));
    return restricted([
      special('root', 'read'),
      special('tmpdir', 'write'),
      special('slash_tmp', 'write'),
      ...writable,
    ]);
  }

  /** The sandbox of a file tool: nothing but the roots. Null for none. */
  async fileSandbox(target: NamedEnvironment, signal: AbortSignal): Promise<SandboxRequest | null> {
    if (this.sandbox === 'off') return null;
    const roots = await this.roots(target, signal);
    return restricted(
      this.sandbox === 'read-only' ? roots.map((uri) => entry(uri, 'read')) : writableEntries(roots),
    );
  }

  /**
   * The `file:` URI of a path of a model. With a sandbox it must be below a root. The server enforces that: a path can lead out through
   * links.
   */
  async resolve(path: string, target: NamedEnvironment, signal: AbortSignal): Promise<string> {
    const roots = await this.#rootsOf(target, signal);
    const uri = new URL(toFileUri(path, roots[0]!.real)).href;
    if (this.sandbox === 'off' || roots.some(({ real }) => isWithin(uri, real))) return uri;
    const root = roots.find(({ named }) => isWithin(uri, named));
    if (root !== undefined) return `${root.real}${uri.slice(root.named.length)}`;
    const shown = roots.map(({ real }) => shownName(toNativePath(real))).join(', ');
    throw new ToolFailure(
      `${shownName(toNativePath(uri))} is outside of the workspace, which is ${shown}. Use a path in it, or ask the user for access.`,
      { kind: 'permissionDenied' },
    );
  }
}

/** A root as it was named, and where it led when it was used first. */
interface Root {
  readonly named: string;
  readonly real: string;
}

/**
 * Where the roots of an environment led when they were used first, the latest last. All toolsets of a program share it: another session
 * may replace a directory of its own workspace, which is a root here, by a link to elsewhere.
 */
const PINNED = new WeakMap<ToolEnvironment, Map<string, string>>();

/** Resolves a root. Throws ToolFailure for one that does not exist, or leads elsewhere than before. */
async function pinnedRoot(named: string, target: NamedEnvironment, signal: AbortSignal): Promise<Root> {
  const { environment } = target;
  const real = withoutSlash(await canonical(named, target, signal));
  const pinned = PINNED.get(environment) ?? new Map<string, string>();
  PINNED.set(environment, pinned);
  // What a link led to is a root too, and must not become a link.
  const before = pinned.get(named) ?? real;
  if (before !== real) {
    throw new ToolFailure(
      `The workspace ${toNativePath(named)} leads elsewhere now: to ${toNativePath(real)} instead of ${toNativePath(before)}. Nothing was done. Tell the user, who can restore the directory, or restart the program that offers these tools.`,
      { kind: 'permissionDenied' },
    );
  }
  for (const uri of [named, real]) {
    pinned.delete(uri);
    pinned.set(uri, real);
  }
  for (const uri of pinned.keys()) if (pinned.size > MAX_PINNED_ROOTS) pinned.delete(uri);
  return { named, real };
}

async function canonical(named: string, { name, environment }: NamedEnvironment, signal: AbortSignal) {
  try {
    const options = { signal, timeoutMs: REQUEST_TIMEOUT_MS };
    return await environment.files.fileSystem.canonicalize(named, options);
  } catch (error) {
    if (!(error instanceof ClientError) || error.kind !== 'notFound') throw error;
    throw new ToolFailure(
      `The workspace ${toNativePath(named)} does not exist in the environment "${name}". Tell the user to create it, or to set another root.`,
      { kind: 'notFound' },
      error,
    );
  }
}

async function defaultDirectory(target: NamedEnvironment, signal: AbortSignal): Promise<string> {
  const { cwd } = await infoOf(target, signal);
  if (cwd) return withoutSlash(cwd);
  throw new ToolFailure(
    `The environment "${target.name}" reports no default directory. Pass absolute paths, or let the user set a root.`,
  );
}

const FILE_SYSTEM_ROOT = 'file:///';

/**
 * What editors and agents run or trust outside of the sandbox. Some of it starts these tools, and says with which sandbox. The server
 * protects `.git`, `.codex` and others itself.
 */
const PROTECTED_NAMES = ['.claude', '.cursor', '.mcp.json', '.vscode'] as const;

function writableEntries(roots: readonly string[]): readonly PolicyEntry[] {
  return roots.flatMap((root) => [
    entry(root, 'write'),
    ...protectedPaths(root).map((path) => entry(path, 'read')),
  ]);
}

/** What stays read-only in a writable root, besides what the server protects itself. */
export function protectedPaths(root: string): readonly string[] {
  return root === FILE_SYSTEM_ROOT ? [] : PROTECTED_NAMES.map((name) => `${root}/${name}`);
}

type PolicyEntry = ReturnType<typeof entry> | ReturnType<typeof special>;

function entry(path: string, access: 'read' | 'write') {
  return { path: { type: 'path' as const, path }, access, missing_path_behavior: 'skip' as const };
}

function special(kind: 'root' | 'tmpdir' | 'slash_tmp', access: 'read' | 'write') {
  return { path: { type: 'special' as const, value: { kind } }, access };
}

function restricted(entries: readonly PolicyEntry[]): SandboxRequest {
  return {
    permissions: {
      type: 'managed',
      file_system: { type: 'restricted', entries: [...entries] },
      network: 'restricted',
    },
    windowsSandboxLevel: 'disabled',
  };
}

/** The description of an environment. */
export function infoOf({ environment }: NamedEnvironment, signal: AbortSignal): Promise<EnvironmentInfo> {
  return environment.info({ signal, timeoutMs: REQUEST_TIMEOUT_MS });
}

/** Whether the connection of an environment was lost and is not restored. */
export function isDisconnected({ connection, state }: ToolEnvironment): boolean {
  return connection?.connected === false || (state !== undefined && state !== 'connected');
}

function isWithin(uri: string, root: string): boolean {
  const [path, start] = [toNativePath(uri), toNativePath(root)];
  return path === start || path.startsWith(start.endsWith('/') ? start : `${start}/`);
}

function withoutSlash(uri: string): string {
  return uri.replace(/(?<=\/[^/]+)\/+$/, '');
}
