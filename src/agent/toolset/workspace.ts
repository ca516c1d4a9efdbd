import { toFileUri, toNativePath } from '../../client/paths.ts';
import type { EnvironmentInfo, SandboxRequest } from '../../environment/index.ts';
import { ToolFailure } from './failure.ts';
import { REQUEST_TIMEOUT_MS } from './limits.ts';
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

  /** The roots in an environment, `file:` URIs: those that were set, or its default directory. */
  async roots(target: NamedEnvironment, signal: AbortSignal): Promise<readonly string[]> {
    const known = this.#roots.get(target.name) ?? [];
    if (known.length > 0) return known;
    const { cwd } = await infoOf(target, signal);
    if (cwd) return [withoutSlash(cwd)];
    throw new ToolFailure(
      `The environment "${target.name}" reports no default directory. Pass absolute paths, or let the user set a root.`,
    );
  }

  /** The sandbox of a program; null for none. */
  async programSandbox(target: NamedEnvironment, signal: AbortSignal): Promise<SandboxRequest | null> {
    if (this.sandbox === 'off') return null;
    if (this.sandbox === 'read-only') return { type: 'readOnly' };
    const [cwd, ...writableRoots] = await this.roots(target, signal);
    return { type: 'workspaceWrite', cwd: cwd!, writableRoots };
  }

  /** The sandbox of a file tool: nothing but the roots. Null for none. */
  async fileSandbox(target: NamedEnvironment, signal: AbortSignal): Promise<SandboxRequest | null> {
    if (this.sandbox === 'off') return null;
    const access = this.sandbox === 'read-only' ? 'read' : 'write';
    const entries = (await this.roots(target, signal)).map((path) => ({
      path: { type: 'path' as const, path },
      access: access as 'read' | 'write',
      missing_path_behavior: 'skip' as const,
    }));
    return {
      permissions: { type: 'managed', file_system: { type: 'restricted', entries }, network: 'restricted' },
      windowsSandboxLevel: 'disabled',
    };
  }

  /**
   * The `file:` URI of a path of a model. With a sandbox it must be below a root. The server enforces that: a path can lead out through
   * links.
   */
  async resolve(path: string, target: NamedEnvironment, signal: AbortSignal): Promise<string> {
    const roots = await this.roots(target, signal);
    const uri = new URL(toFileUri(path, roots[0]!)).href;
    if (this.sandbox === 'off' || roots.some((root) => isWithin(uri, root))) return uri;
    const shown = roots.map(toNativePath).join(', ');
    throw new ToolFailure(
      `${toNativePath(uri)} is outside of the workspace, which is ${shown}. Use a path in it, or ask the user for access.`,
      { kind: 'permissionDenied' },
    );
  }
}

/** The description of an environment. */
export function infoOf({ environment }: NamedEnvironment, signal: AbortSignal): Promise<EnvironmentInfo> {
  return environment.info({ signal, timeoutMs: REQUEST_TIMEOUT_MS });
}

function isWithin(uri: string, root: string): boolean {
  const [path, start] = [toNativePath(uri), toNativePath(root)];
  return path === start || path.startsWith(start.endsWith('/') ? start : `${start}/`);
}

function withoutSlash(uri: string): string {
  return uri.replace(/(?<=\/[^/]+)\/+$/, '');
}
