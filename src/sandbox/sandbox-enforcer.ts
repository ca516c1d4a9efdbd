import { withTimeout } from '../base/with-timeout.ts';
import type { FileSystem } from '../files/file-system.ts';
import { deferFileSystem } from '../files/file-system-wrappers.ts';
import { type NativePath, nativePathOfText } from '../files/native-path.ts';
import type { SearchRequest, SearchResult } from '../files/search/query.ts';
import type { SpawnSpec } from '../process/spawn/spawner.ts';
import type { SandboxedLaunch, WrapInSandbox } from '../process/start-program.ts';
import type { SandboxContext } from '../protocol/sandbox.ts';
import { SandboxError } from './errors.ts';
import { SANDBOX_PROBE_WAIT_MS } from './limits.ts';
import type { Proxied } from './linux/bwrap-command.ts';
import { intersect } from './policy/intersect.ts';
import { isOpenAnyway, type PolicyHost, policyOf, requirePlaces } from './policy/normalize.ts';
import { isFullRead, isFullWrite, type SandboxPolicy } from './policy/policy.ts';
import type { Sandbox } from './sandbox.ts';

/** What confines a program, as clients are told. */
export type SandboxType = 'none' | 'linuxSeccomp';

/** A start under a sandbox, or without one. */
export interface ProgramSandbox {
  readonly sandboxType: SandboxType;
  /** Null where the program runs as it is. `sockets` are those on which it reaches its proxy. */
  readonly wrapInSandbox:
    | ((spec: SpawnSpec, signal: AbortSignal, sockets?: Proxied | null) => Promise<SandboxedLaunch>)
    | null;
}

/** The files of one connection under whatever sandbox its requests name. */
export interface FileSandboxes {
  /** Null where every file may be read, or written, as `access` says. Throws SandboxError when the sandbox makes no sense. */
  of(asked: SandboxContext | null, access: 'read' | 'write'): FileSandbox | null;
}

/** Files under a sandbox. */
export interface FileSandbox {
  readonly fileSystem: FileSystem;
  search(request: SearchRequest, signal: AbortSignal): Promise<SearchResult>;
}

/**
 * Turns the sandbox that a request asks for into the one that is enforced. Below every request lies the server's own floor: it
 * holds for those that ask for less, or for nothing. What cannot be enforced is refused; nothing ever runs without it.
 */
export class SandboxEnforcer {
  readonly #floor: SandboxContext | null;
  readonly #load: () => Promise<Sandbox>;
  #loading: Promise<Sandbox> | null = null;
  #sandboxed: Sandbox | null = null;
  readonly #isLikely: () => boolean;
  /** A guess, or false where nothing can be enforced in any case. */
  #likely: boolean | null = null;

  /**
   * `load` brings what enforces sandboxes; it is called when the first request needs it. `isLikely` guesses whether it will work.
   */
  constructor(floor: SandboxContext | null, load: () => Promise<Sandbox>, isLikely: () => boolean) {
    this.#floor = floor;
    this.#load = load;
    this.#isLikely = isLikely;
  }

  /** Whether sandboxes can be enforced here, as far as is known: a guess until {@link probe} or a request has found out. */
  get usable(): boolean {
    this.#likely ??= this.#isLikely();
    return this.#sandboxed?.works ?? this.#likely;
  }

  /** Finds out whether sandboxes can be enforced here. A dead mount on the search path cannot hold it up. */
  async probe(): Promise<void> {
    const checked = this.#sandbox().then((sandbox) => sandbox.check());
    await withTimeout(
      checked.catch(() => {}),
      SANDBOX_PROBE_WAIT_MS,
    );
  }

  /** Whether the server demands that nothing gets at the network. */
  get networkForbidden(): boolean {
    return this.#floorPolicy()?.network === 'restricted';
  }

  /** How a program is started that its request wants restricted to `asked`. Throws SandboxError when that makes no sense. */
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

  /** The same for what is run on behalf of a program that may use its proxy and nothing else of the network: it gets none at all. */
  withoutNetwork(asked: SandboxContext, spec: SpawnSpec): WrapInSandbox {
    const policy = intersect(this.#programPolicy(asked, spec)!, NO_NETWORK);
    return async (inner, signal) => (await this.#sandbox()).wrapProgram(inner, policy, signal);
  }

  /** The files of a connection that may see only what is `below` a directory, or everything when that is null. */
  files(below: NativePath | null): FileSandboxes {
    return {
      of: (asked, access) => {
        if (asked === null && this.#floor === null) return null;
        const policy = this.#aboveFloor(asked === null ? null : filePolicy(asked, access));
        if (policy === null || isFullWrite(policy) || (access === 'read' && isFullRead(policy))) return null;
        return this.#filesUnder(below === null ? policy : intersect(policy, onlyBelow(below)));
      },
    };
  }

  async close(): Promise<void> {
    const sandbox = await this.#loading?.catch(() => null);
    await sandbox?.close();
  }

  #filesUnder(policy: SandboxPolicy): FileSandbox {
    const files = async () => (await this.#sandbox()).files(policy);
    return {
      fileSystem: deferFileSystem(async () => (await files()).fileSystem),
      search: async (...search) => (await files()).search(...search),
    };
  }

  /** Null only where nothing is asked for and there is no floor. */
  #programPolicy(asked: SandboxContext | null, spec: SpawnSpec): SandboxPolicy | null {
    const host = { cwd: nativePathOfText(spec.cwd), tmpdir: spec.env.TMPDIR };
    return this.#aboveFloor(asked === null ? null : programPolicy(asked, host));
  }

  #aboveFloor(policy: SandboxPolicy | null): SandboxPolicy | null {
    const floor = this.#floorPolicy();
    if (floor === null || policy === null) return floor ?? policy;
    return intersect(policy, floor);
  }

  /** The floor knows the server's environment only: what a request says must not move it. */
  #floorPolicy(): SandboxPolicy | null {
    return this.#floor && policyOf(this.#floor, { cwd: null, tmpdir: process.env.TMPDIR });
  }

  /** Whether it works is not tried for this: the first request shows it. */
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

/** Clients know what does not fit this host as an error of the parameters here, and as a bad request where files are concerned. */
function programPolicy(asked: SandboxContext, host: PolicyHost): SandboxPolicy {
  try {
    requirePlaces(asked, host);
    return policyOf(asked, host);
  } catch (error) {
    const isForeign = error instanceof SandboxError && /^(?:foreignRule|unsuitable)$/.test(error.kind);
    throw isForeign ? new SandboxError('invalid', error.message) : error;
  }
}

/** Where every file is open anyway it does not matter what the sandbox is relative to. */
function filePolicy(asked: SandboxContext, access: 'read' | 'write'): SandboxPolicy {
  try {
    return policyOf(asked, { cwd: null, tmpdir: process.env.TMPDIR });
  } catch (error) {
    const isOpen =
      error instanceof SandboxError && error.kind === 'unsuitable' && isOpenAnyway(asked, access);
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
