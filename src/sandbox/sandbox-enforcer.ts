import type { Owner } from '../base/fair-shares.ts';
import { withTimeout } from '../base/with-timeout.ts';
import type { FileSystem } from '../files/file-system.ts';
import { deferFileSystem } from '../files/file-system-wrappers.ts';
import { type NativePath, nativePathOfText } from '../files/native-path.ts';
import { restrictSandboxToRoot } from '../files/root-restricted-file-system.ts';
import type { SearchRequest, SearchResult } from '../files/search/query.ts';
import type { SpawnSpec } from '../process/spawn/spawner.ts';
import type { SandboxedLaunch, WrapInSandbox } from '../process/start-program.ts';
import type { SandboxContext } from '../protocol/sandbox.ts';
import { SandboxError } from './errors.ts';
import { SANDBOX_PROBE_WAIT_MS } from './limits.ts';
import type { Proxied } from './linux/bwrap-command.ts';
import { intersect } from './policy/intersect.ts';
import { allowsEveryFile, type PolicyHost, policyOf, requireValidRoots } from './policy/normalize.ts';
import { isFullRead, isFullWrite, type SandboxPolicy, withDenied } from './policy/policy.ts';
import type { Sandbox } from './sandbox.ts';

/** The kind of sandbox that is reported to clients. */
export type SandboxType = 'none' | 'linuxSeccomp';

/** The sandbox of a program, if any. */
export interface ProgramSandbox {
  readonly sandboxType: SandboxType;
  /** Null when the program runs without a sandbox. `sockets` are those on which it reaches its proxy. */
  readonly wrapInSandbox:
    | ((spec: SpawnSpec, signal: AbortSignal, sockets?: Proxied | null) => Promise<SandboxedLaunch>)
    | null;
}

/** The sandboxed files of one connection. */
export interface FileSandboxes {
  /** Null when the sandbox allows this access to every file. Throws SandboxError for an invalid sandbox. */
  of(asked: SandboxContext | null, access: 'read' | 'write'): FileSandbox | null;
}

/** The files of one sandbox. */
export interface FileSandbox {
  readonly fileSystem: FileSystem;
  search(request: SearchRequest, signal: AbortSignal): Promise<SearchResult>;
}

/**
 * Combines the sandbox of a request with the server's floor, which always holds, also for a request without a sandbox. Refuses what cannot
 * be enforced; nothing runs with less.
 */
export class SandboxEnforcer {
  readonly #floor: SandboxContext | null;
  readonly #load: () => Promise<Sandbox>;
  #loading: Promise<Sandbox> | null = null;
  #sandboxed: Sandbox | null = null;
  readonly #isLikely: () => boolean;
  readonly #hidden: NativePath | null;
  /** The result of `isLikely`, or false after loading has failed. */
  #likely: boolean | null = null;

  /**
   * The first request that needs a sandbox calls `load`. `isLikely` guesses whether it will work. No sandbox that restricts files shows
   * the directory `hidden`.
   */
  constructor(
    floor: SandboxContext | null,
    load: () => Promise<Sandbox>,
    isLikely: () => boolean,
    hidden: NativePath | null = null,
  ) {
    this.#floor = floor;
    this.#load = load;
    this.#isLikely = isLikely;
    this.#hidden = hidden;
  }

  /** Whether sandboxes work on this machine. A guess until {@link probe} or a request has shown it. */
  get usable(): boolean {
    this.#likely ??= this.#isLikely();
    return this.#sandboxed?.works ?? this.#likely;
  }

  /** Tests whether sandboxes work, within a time limit: a dead mount on the PATH could block it. */
  async probe(): Promise<void> {
    const checked = this.#sandbox().then((sandbox) => sandbox.check());
    await withTimeout(
      checked.catch(() => {}),
      SANDBOX_PROBE_WAIT_MS,
    );
  }

  /** Whether the floor forbids all network access. */
  get networkForbidden(): boolean {
    return this.#floorPolicy()?.network === 'restricted';
  }

  /** The sandbox for a program whose request names `asked`. Throws SandboxError when that is invalid. */
  program(asked: SandboxContext | null, spec: SpawnSpec): ProgramSandbox {
    if (asked === null && this.#floor === null) return UNSANDBOXED;
    const policy = this.#programPolicy(asked, spec);
    if (policy === null) return UNSANDBOXED;
    return {
      sandboxType: 'linuxSeccomp',
      wrapInSandbox: async (inner, signal, sockets = null) =>
        (await this.#sandbox()).wrapProgram(inner, policy, signal, sockets),
    };
  }

  /** The same without any network, for a login shell that runs on behalf of a program with a proxy. */
  withoutNetwork(asked: SandboxContext, spec: SpawnSpec): WrapInSandbox {
    const policy = intersect(this.#programPolicy(asked, spec)!, NO_NETWORK);
    return async (inner, signal) => (await this.#sandbox()).wrapProgram(inner, policy, signal);
  }

  /** The files of a connection of the session `owner`. If `below` is not null, the connection only sees this directory. */
  files(below: NativePath | null, owner: Owner): FileSandboxes {
    return {
      of: (asked, access) => {
        if (asked === null && this.#floor === null) return null;
        const policy = this.#aboveFloor(asked === null ? null : filePolicy(asked, access));
        if (policy === null || isFullWrite(policy) || (access === 'read' && isFullRead(policy))) return null;
        if (below === null) return this.#filesUnder(this.#hide(policy), owner);
        const files = this.#filesUnder(intersect(this.#hide(policy), onlyBelow(below)), owner);
        // The policy does not say that the directory itself cannot be changed, nor that no link can be made.
        return { ...files, fileSystem: restrictSandboxToRoot(files.fileSystem, below) };
      },
    };
  }

  async close(): Promise<void> {
    const sandbox = await this.#loading?.catch(() => null);
    await sandbox?.close();
  }

  #filesUnder(policy: SandboxPolicy, owner: Owner): FileSandbox {
    const files = async () => (await this.#sandbox()).files(policy, owner);
    return {
      fileSystem: deferFileSystem(async () => (await files()).fileSystem),
      search: async (...search) => (await files()).search(...search),
    };
  }

  /** Null only if the request has no sandbox and there is no floor. */
  #programPolicy(asked: SandboxContext | null, spec: SpawnSpec): SandboxPolicy | null {
    const host = { cwd: nativePathOfText(spec.cwd), tmpdir: spec.env.TMPDIR };
    const policy = this.#aboveFloor(asked === null ? null : programPolicy(asked, host));
    return policy && this.#hide(policy);
  }

  /** A policy that allows writing every file stays as it is: its programs can change the server anyway. */
  #hide(policy: SandboxPolicy): SandboxPolicy {
    const { disk } = policy;
    if (this.#hidden === null || disk === 'unrestricted' || isFullWrite(policy)) return policy;
    return { ...policy, disk: withDenied(disk, this.#hidden) };
  }

  #aboveFloor(policy: SandboxPolicy | null): SandboxPolicy | null {
    const floor = this.#floorPolicy();
    if (floor === null || policy === null) return floor ?? policy;
    return intersect(policy, floor);
  }

  /** The floor depends only on the server's environment, never on the request. */
  #floorPolicy(): SandboxPolicy | null {
    return this.#floor && policyOf(this.#floor, { cwd: null, tmpdir: process.env.TMPDIR });
  }

  /** Does not test whether the sandbox works; the first request shows that. */
  #sandbox(): Promise<Sandbox> {
    this.#loading ??= this.#load().then(
      (sandbox) => {
        this.#sandboxed = sandbox;
        return sandbox;
      },
      (error: unknown) => {
        this.#likely = false;
        throw error;
      },
    );
    return this.#loading;
  }
}

/** As in the reference, a path of another platform is an invalid parameter for a program, and an invalid request for files. */
function programPolicy(asked: SandboxContext, host: PolicyHost): SandboxPolicy {
  try {
    requireValidRoots(asked, host);
    return policyOf(asked, host);
  } catch (error) {
    const isForeign = error instanceof SandboxError && /^(?:foreignRule|unsuitable)$/.test(error.kind);
    throw isForeign ? new SandboxError('invalid', error.message) : error;
  }
}

/** If the sandbox allows every file, its base paths need not be valid on this host. */
function filePolicy(asked: SandboxContext, access: 'read' | 'write'): SandboxPolicy {
  try {
    return policyOf(asked, { cwd: null, tmpdir: process.env.TMPDIR });
  } catch (error) {
    const isOpen =
      error instanceof SandboxError && error.kind === 'unsuitable' && allowsEveryFile(asked, access);
    if (isOpen) return OPEN;
    throw error;
  }
}

const OPEN: SandboxPolicy = { disk: 'unrestricted', network: 'enabled' };
const NO_NETWORK: SandboxPolicy = { disk: 'unrestricted', network: 'restricted' };

const UNSANDBOXED: ProgramSandbox = { sandboxType: 'none', wrapInSandbox: null };

function onlyBelow(directory: NativePath): SandboxPolicy {
  const entries = [{ path: directory, access: 'write', byName: false }] as const;
  return {
    disk: { base: 'deny', platform: false, entries, denyGlobs: [] },
    network: 'enabled',
  };
}
